package dev.halcyon.engine.disagg.router;

/** What an endpoint does of a request. */
enum Role {
  PREFILL("prefill"),
  DECODE("decode");

  private final String label;

  Role(String label) {
    this.label = label;
  }

  /** As metrics and messages have it. */
  String label() {
    return label;
  }
}
