package dev.halcyon.engine.disagg;

/** Who has a prompt's beginning in its cache before the prompt comes. */
public enum PrefixAt {
  PREFILL,
  DECODE,
  BOTH;

  public boolean prefill() {
    return this != DECODE;
  }

  public boolean decode() {
    return this != PREFILL;
  }
}
