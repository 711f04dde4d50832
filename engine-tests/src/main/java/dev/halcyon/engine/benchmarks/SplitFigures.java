package dev.halcyon.engine.benchmarks;

import java.util.Locale;

/**
 * What one engine and two gave for prompts of one length; times in seconds, rates in tokens a
 * second.
 *
 * @param wholeFirst time to the first token in one engine
 * @param splitFirst time to the first token in two, from the context-only request's submission
 * @param overlappedFirst the same where the second fetches what the first is still computing
 * @param wholeRate generated tokens of requests at once, from their submission to the last token
 * @param splitRate the same in two engines
 * @param overlappedRate the same where the second fetches what the first is still computing
 * @param kvBytes keys and values of a prompt
 * @param kvSeconds from the request for them until all are there, at best
 * @param usualKvSeconds the median of the same
 */
record SplitFigures(
    double wholeFirst,
    double splitFirst,
    double overlappedFirst,
    double wholeRate,
    double splitRate,
    double overlappedRate,
    long kvBytes,
    double kvSeconds,
    double usualKvSeconds) {

  static final String HEADER =
      "| way, prompt | first token, one engine, ms | split, ms | ratio | overlapped, ms | ratio"
          + " | one engine, tokens/s | split, tokens/s | overlapped, tokens/s | KV, MB | KV, GB/s"
          + " | link, GB/s | of the link | median |\n"
          + "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";

  /**
   * A row of the table.
   *
   * @param link bytes a second of the way at best
   */
  String row(String way, int promptTokens, double link) {
    double rate = kvBytes / kvSeconds;
    return String.format(
        Locale.ROOT,
        "| %s, %d | %.1f | %.1f | %.2f | %.1f | %.2f | %.1f | %.1f | %.1f | %.1f | %.2f | %.2f"
            + " | %.0f %% | %.0f %% |%n",
        way,
        promptTokens,
        wholeFirst * 1e3,
        splitFirst * 1e3,
        splitFirst / wholeFirst,
        overlappedFirst * 1e3,
        overlappedFirst / wholeFirst,
        wholeRate,
        splitRate,
        overlappedRate,
        kvBytes / 1e6,
        rate / 1e9,
        link / 1e9,
        100 * rate / link,
        100 * kvBytes / usualKvSeconds / link);
  }
}
