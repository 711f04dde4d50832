import com.github.tjake.jlama.model.AbstractModel;
import com.github.tjake.jlama.model.ModelSupport;
import com.github.tjake.jlama.model.functions.Generator;
import com.github.tjake.jlama.safetensors.DType;
import com.github.tjake.jlama.safetensors.prompt.PromptContext;
import com.github.tjake.jlama.tensor.operations.TensorOperationsProvider;
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;

/**
 * Times Jlama. Its setting: BF16 weights from the safetensors file, not quantised; working memory
 * F32, its usual choice. The type to which it turns activations for a product (its "working
 * quantized type") may be F32 or BF16 with such weights; F32 is the faster one where this was
 * tried (AMD EPYC with AVX-512), and it is what the engine beside it does. Native kernels of its own
 * jar. It has no batching: a request runs alone, so larger batches are left out.
 */
final class JlamaPeer {

  private final Report report;

  private JlamaPeer(Report report) {
    this.report = report;
  }

  public static void main(String[] args) throws Exception {
    new JlamaPeer(new Report(args)).run();
    System.out.flush();
    System.exit(0);
  }

  private void run() throws Exception {
    try (AbstractModel model =
        ModelSupport.loadModel(
            new File(report.model),
            null,
            DType.F32,
            DType.F32,
            Optional.empty(),
            Optional.of(report.threads))) {
      if (report.batches.contains(1)) {
        generate(model, report.promptTokens, report.generatedTokens);
        for (int run = 0; run < Report.RUNS; run++) {
          List<Long> times = generate(model, report.promptTokens, report.generatedTokens);
          report.decoded(1, List.of(times.subList(1, times.size())));
        }
      }
      for (int run = 0; run <= Report.RUNS; run++) {
        List<Long> times = generate(model, report.prefillTokens, 1);
        if (run > 0) {
          report.prefilled(times.get(1) - times.get(0));
        }
      }
      report.print(
          "Jlama",
          "BF16 weights, F32 activations and KV cache, " + TensorOperationsProvider.get().name());
    }
  }

  /** The time of submission, then the time of each token. */
  private List<Long> generate(AbstractModel model, int promptTokens, int count) {
    // Jlama puts the token of the beginning in front, and its limit counts the prompt too. The
    // first token comes with the prompt, outside the limit.
    PromptContext prompt = PromptContext.of(report.prompt(promptTokens - 1));
    List<Long> times = new ArrayList<>();
    times.add(System.nanoTime());
    Generator.Response response =
        model.generate(
            UUID.randomUUID(),
            prompt,
            0f,
            promptTokens + count - 1,
            (text, milliseconds) -> times.add(System.nanoTime()));
    if (times.size() != count + 1) {
      throw new IllegalStateException(
          "got " + (times.size() - 1) + " tokens, expected " + count + "; " + response.finishReason);
    }
    return times;
  }
}
