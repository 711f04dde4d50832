import de.kherud.llama.InferenceParameters;
import de.kherud.llama.LlamaIterator;
import de.kherud.llama.LlamaModel;
import de.kherud.llama.ModelParameters;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

/**
 * Times java-llama.cpp. Its setting: BF16 weights from the GGUF, used as they are (the CPU kernels
 * round activations to BF16 for a BF16 product and accumulate in float32); KV cache in F16, its
 * default; memory-mapped; no prompt cache; greedy; the library in the jar, which is built for
 * AVX2 with FMA and F16C but neither AVX-512 nor BF16 instructions (its log says so). A batch is that
 * many requests at once from as many threads into that many slots with continuous batching.
 */
final class LlamaCppPeer {

  /** The vocabulary's tokens of one byte each, as GgufWriter writes it. */
  private static final List<Integer> BYTE_TOKENS = IntStream.range(3, 259).boxed().toList();

  private final Report report;

  private LlamaCppPeer(Report report) {
    this.report = report;
  }

  public static void main(String[] args) {
    try {
      new LlamaCppPeer(new Report(args)).run();
      System.exit(0);
    } catch (Exception e) {
      // The library leaves threads behind that would keep a failed run alive.
      e.printStackTrace();
      System.exit(1);
    }
  }

  private void run() throws Exception {
    // A fresh model for each batch: no run pays for slots or cache cells of another.
    for (int batch : report.batches) {
      try (LlamaModel model = open(batch, report.promptTokens + report.generatedTokens)) {
        generate(model, batch);
        for (int run = 0; run < Report.RUNS; run++) {
          report.decoded(batch, generate(model, batch));
        }
      }
    }
    try (LlamaModel model = open(1, report.prefillTokens)) {
      for (int run = 0; run <= Report.RUNS; run++) {
        String prompt = report.prompt(report.prefillTokens);
        long start = System.nanoTime();
        long nanos = tokens(model, prompt, 1).get(0) - start;
        if (run > 0) {
          report.prefilled(nanos);
        }
      }
    }
    report.print(
        "java-llama.cpp", "BF16 weights, activations rounded to BF16, F16 KV cache, AVX2 library");
    System.out.flush();
    // The library's own threads outlive the model.
    Runtime.getRuntime().halt(0);
  }

  private LlamaModel open(int slots, int tokensPerSlot) {
    return new LlamaModel(
        new ModelParameters()
            .setModel(report.model)
            .setThreads(report.threads)
            .setThreadsBatch(report.threads)
            .setParallel(slots)
            .enableContBatching()
            // Some room: a slot must not shift its context.
            .setCtxSize(slots * (tokensPerSlot + 32)));
  }

  /** Runs equal requests at once; gives the times at which the tokens of each came. */
  private List<List<Long>> generate(LlamaModel model, int batch) throws Exception {
    ExecutorService callers = Executors.newFixedThreadPool(batch);
    try {
      List<Callable<List<Long>>> requests = new ArrayList<>();
      for (int i = 0; i < batch; i++) {
        String prompt = report.prompt(report.promptTokens);
        requests.add(() -> tokens(model, prompt, report.generatedTokens));
      }
      List<List<Long>> arrivals = new ArrayList<>();
      for (Future<List<Long>> request : callers.invokeAll(requests)) {
        arrivals.add(request.get());
      }
      return arrivals;
    } finally {
      callers.shutdown();
    }
  }

  /**
   * The times at which the tokens of one request came.
   *
   * <p>The library sends an output for each token and then one more for the end. A token after which
   * the text stops in the middle of a character is the exception: its text waits for the next
   * token, without an output. With random weights such tokens do come, so those that are bytes are
   * ruled out by a bias of the logits: one addition for each of 256 of the vocabulary's ids, which
   * is nothing beside a step. What is left is decoded as ever, and one output is one token.
   */
  private static List<Long> tokens(LlamaModel model, String prompt, int count) {
    InferenceParameters parameters =
        new InferenceParameters(prompt)
            .setTemperature(0)
            .setNPredict(count)
            .setIgnoreEos(true)
            .disableTokenIds(BYTE_TOKENS)
            .setCachePrompt(false);
    List<Long> times = new ArrayList<>();
    LlamaIterator iterator = model.generate(parameters).iterator();
    while (iterator.hasNext()) {
      iterator.next();
      // The output after which there is no next one is the end's own.
      if (iterator.hasNext()) {
        times.add(System.nanoTime());
      }
    }
    if (times.size() != count) {
      throw new IllegalStateException("got " + times.size() + " tokens, expected " + count);
    }
    return times;
  }
}
