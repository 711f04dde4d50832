package dev.halcyon.engine.benchmarks;

/** What a run of {@link LogitsBenchmark} asks of the rows of a prompt. */
enum LogitsScenario {
  BARE("bare projection", false, null),
  FULL_ON_DEVICE("full, on the device", true, null),
  FULL_ON_HOST("full, on the host, the first time", true, null),
  FULL_ON_HOST_AGAIN("full, on the host, again", true, null),
  COMPACT_0("compact, k = 0", false, 0),
  COMPACT_5("compact, k = 5", false, 5);

  private final String title;
  private final boolean full;
  private final Integer topK;

  LogitsScenario(String title, boolean full, Integer topK) {
    this.title = title;
    this.full = full;
    this.topK = topK;
  }

  String title() {
    return title;
  }

  /** Whether full rows are kept. */
  boolean full() {
    return full;
  }

  /** Whether full rows go to the host, where the device has no room. */
  boolean onHost() {
    return this == FULL_ON_HOST || this == FULL_ON_HOST_AGAIN;
  }

  /** The most likely tokens of each row of prompt logprobs; null for none. */
  Integer topK() {
    return topK;
  }
}
