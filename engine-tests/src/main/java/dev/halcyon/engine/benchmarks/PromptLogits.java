package dev.halcyon.engine.benchmarks;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.SamplingParams;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * Writes the logits of prompts, and of the greedy tokens behind them, to a file: the engine's side
 * of scripts/large-model. For each prompt the file has the rows of its tokens and of all generated
 * ones but the last, [prompt + generated - 1, vocabSize] float32, little-endian. A file of the same
 * name with .json has the generated ids and the logprobs of the prompt's tokens.
 */
@Command(
    name = "prompt-logits",
    mixinStandardHelpOptions = true,
    sortOptions = false,
    description = "Writes logits of prompts and of the greedy tokens behind them to a file.")
public final class PromptLogits implements Callable<Integer> {

  private static final ObjectMapper JSON = new ObjectMapper();

  @Option(names = "--model", paramLabel = "DIR", required = true, description = "the checkpoint")
  private Path model;

  @Option(
      names = "--prompts",
      paramLabel = "FILE",
      required = true,
      description = "a JSON list of lists of token ids")
  private Path prompts;

  @Option(names = "--out", paramLabel = "FILE", required = true, description = "what to write")
  private Path out;

  @Option(
      names = "--backend",
      paramLabel = "NAME",
      description = "auto, cpu or cuda (default: ${DEFAULT-VALUE})")
  private BackendChoice backend = BackendChoice.CUDA;

  @Option(
      names = "--max-tokens",
      paramLabel = "N",
      description = "tokens to generate behind each prompt (default: ${DEFAULT-VALUE})")
  private int maxTokens = 64;

  @Option(
      names = "--chunk",
      paramLabel = "N",
      description = "tokens of a step, so that long prompts take several (default: 512)")
  private int chunk = 512;

  public static void main(String[] args) {
    System.exit(
        new CommandLine(new PromptLogits())
            .setCaseInsensitiveEnumValuesAllowed(true)
            .execute(args));
  }

  @Override
  public Integer call() throws IOException {
    long start = System.nanoTime();
    try (Engine engine =
            Engine.builder()
                .model(model)
                .backend(backend)
                .maxBatchTokens(chunk)
                .kvCacheTokens(8192)
                .build();
        FileChannel file =
            FileChannel.open(
                out,
                StandardOpenOption.CREATE,
                StandardOpenOption.TRUNCATE_EXISTING,
                StandardOpenOption.WRITE)) {
      System.err.printf(
          Locale.ROOT,
          "opened on %s in %.1f s%n",
          engine.backendName(),
          (System.nanoTime() - start) / 1e9);
      ObjectNode report = JSON.createObjectNode();
      ArrayNode cases = report.putArray("cases");
      // All together, so that steps hold prompts and generated tokens side by side.
      for (GenerationResult result : engine.generate(requests())) {
        try (result) {
          write(result, file);
          cases.add(describe(result));
        }
      }
      JSON.writeValue(json().toFile(), report);
    }
    return 0;
  }

  private Path json() {
    String name = out.getFileName().toString();
    int dot = name.lastIndexOf('.');
    return out.resolveSibling((dot < 0 ? name : name.substring(0, dot)) + ".json");
  }

  private List<GenerationRequest> requests() throws IOException {
    SamplingParams params =
        SamplingParams.builder()
            .temperature(0f)
            .maxTokens(maxTokens)
            .ignoreEos(true)
            .returnContextLogits(true)
            .returnGenerationLogits(true)
            .promptLogprobs(0)
            .build();
    List<GenerationRequest> requests = new ArrayList<>();
    for (JsonNode prompt : JSON.readTree(prompts.toFile())) {
      int[] ids = IntStream.range(0, prompt.size()).map(i -> prompt.get(i).intValue()).toArray();
      requests.add(GenerationRequest.of(ids, params));
    }
    return requests;
  }

  private static void write(GenerationResult result, FileChannel file) throws IOException {
    LogitsView context = result.contextLogits();
    LogitsView generation = result.outputs().get(0).generationLogits();
    for (int row = 0; row < context.rows(); row++) {
      write(context, row, file);
    }
    // Its first row is the last one of the context.
    for (int row = 1; row < generation.rows(); row++) {
      write(generation, row, file);
    }
  }

  private static void write(LogitsView rows, int row, FileChannel file) throws IOException {
    ByteBuffer bytes =
        ByteBuffer.allocate(rows.vocabSize() * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    bytes.asFloatBuffer().put(rows.row(row));
    while (bytes.hasRemaining()) {
      file.write(bytes);
    }
  }

  private static ObjectNode describe(GenerationResult result) {
    ObjectNode described = JSON.createObjectNode();
    ArrayNode generated = described.putArray("generated");
    result.outputs().get(0).tokenIds().forEach(generated::add);
    ArrayNode logprobs = described.putArray("prompt_logprobs");
    result.promptLogprobs().forEach(one -> logprobs.add(one.chosen().logprob()));
    return described;
  }
}
