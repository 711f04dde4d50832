import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;

/** What the peers' programs share: their arguments, their prompts and the line they print. */
final class Report {

  /** What is timed runs once to warm up, then this often; the best run counts. */
  static final int RUNS = 3;

  final String model;
  final String version;
  final int threads;
  final int promptTokens;
  final int generatedTokens;
  final int prefillTokens;
  final List<Integer> batches = new ArrayList<>();

  private final Map<Integer, Double> decode = new TreeMap<>();
  private final SplittableRandom random = new SplittableRandom(1);
  private double prefill;

  /** Arguments: model, version, threads, prompt, generate, prefill, batches with commas. */
  Report(String[] args) {
    model = args[0];
    version = args[1];
    threads = Integer.parseInt(args[2]);
    promptTokens = Integer.parseInt(args[3]);
    generatedTokens = Integer.parseInt(args[4]);
    prefillTokens = Integer.parseInt(args[5]);
    for (String batch : args[6].split(",")) {
      batches.add(Integer.parseInt(batch));
    }
  }

  /** A prompt of letters, each a token in the checkpoint's vocabulary; different each time. */
  String prompt(int tokens) {
    StringBuilder letters = new StringBuilder();
    random.ints(tokens, 'a', 'z' + 1).forEach(letter -> letters.append((char) letter));
    return letters.toString();
  }

  /**
   * Notes the decode rate of a batch: tokens a second from when the last request has its first
   * token until the first request has its last one, as CpuBenchmark counts them. The best counts.
   */
  void decoded(int batch, List<List<Long>> arrivals) {
    long start = arrivals.stream().mapToLong(times -> times.get(0)).max().orElseThrow();
    long end = arrivals.stream().mapToLong(times -> times.get(times.size() - 1)).min().orElseThrow();
    long tokens =
        arrivals.stream().flatMap(List::stream).filter(time -> time > start && time <= end).count();
    if (end <= start) {
      throw new IllegalStateException("the requests of batch " + batch + " never decoded together");
    }
    decode.merge(batch, tokens * 1e9 / (end - start), Math::max);
  }

  /** Notes the time from submission to the first token; the best counts. */
  void prefilled(long nanos) {
    prefill = Math.max(prefill, prefillTokens * 1e9 / nanos);
  }

  void print(String peer, String setting) {
    StringBuilder rates = new StringBuilder();
    decode.forEach(
        (batch, rate) ->
            rates
                .append(rates.length() == 0 ? "" : ",")
                .append(String.format(Locale.ROOT, "\"%d\":%.3f", batch, rate)));
    System.out.printf(
        Locale.ROOT,
        "{\"peer\":\"%s\",\"version\":\"%s\",\"threads\":%d,\"setting\":\"%s\","
            + "\"decode\":{%s},\"prefill\":%.3f}%n",
        peer,
        version,
        threads,
        setting,
        rates,
        prefill);
  }
}
