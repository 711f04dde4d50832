package dev.halcyon.engine.disagg;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.codec.DisaggParamsCodec;
import dev.halcyon.engine.disagg.transfer.NetworkOptions;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import dev.halcyon.engine.transfer.KvTransport;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Random;

/**
 * A prefill engine in a process of its own. It reads the number of a request from each line of its
 * input, and answers with a line of disaggregation parameters, as JSON.
 */
final class PrefillProcess implements AutoCloseable {

  static final String TOKEN = "between processes";

  private final JavaProcess process;

  PrefillProcess(NetworkTransport kind, Path model) throws IOException {
    process = JavaProcess.alike(PrefillProcess.class, kind, model);
  }

  /** What the process hands over of a request. */
  DisaggParams contextOf(int number) throws IOException {
    process.tell("" + number);
    return codec().fromJsonBytes(process.says().getBytes(StandardCharsets.UTF_8), "params");
  }

  void kill() throws InterruptedException {
    process.kill();
  }

  @Override
  public void close() throws InterruptedException {
    kill();
  }

  /**
   * The requests that both sides know: greedy and seeded ones, of one and of three samples; the odd
   * numbers ask for nothing of the prompt, so that caches are read.
   */
  static GenerationRequest request(int number) {
    SamplingParams.Builder params =
        SamplingParams.builder()
            .maxTokens(9)
            .ignoreEos(true)
            .logprobs(3)
            .returnGenerationLogits(true)
            .n(number / 2 % 2 == 0 ? 1 : 3);
    if (number / 4 % 2 > 0) {
      params.temperature(0.9).seed((long) number);
    }
    if (number % 2 == 0) {
      params.promptLogprobs(2).returnContextLogits(true);
    }
    int[] prompt = new Random(number).ints(40 + number, 1, TinyCheckpoint.VOCAB).toArray();
    return GenerationRequest.of(prompt, params.build());
  }

  private static DisaggParamsCodec codec() {
    return new DisaggParamsCodec(TinyCheckpoint.VOCAB, 1 << 24, 1 << 26);
  }

  public static void main(String[] arguments) throws IOException {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    NetworkTransport kind = NetworkTransport.valueOf(arguments[0]);
    try (KvTransport transport = kind.open(NetworkOptions.builder().token(TOKEN).build());
        Engine engine =
            Engine.builder()
                .model(Path.of(arguments[1]))
                .threads(1)
                .maxBatchSize(4)
                .maxBatchTokens(16) // prompts in chunks
                .kvCacheTokens(1024)
                .deviceMemoryBytes(64 << 20)
                .kvTransport(transport)
                .build()) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        DisaggParams context = DisaggParams.contextOnly("request-" + line);
        GenerationRequest request =
            request(Integer.parseInt(line)).toBuilder().disaggParams(context).build();
        try (GenerationResult result = engine.generate(request)) {
          byte[] json = codec().toJsonBytes(result.disaggParams());
          JavaProcess.say(new String(json, StandardCharsets.UTF_8));
        }
      }
    }
  }
}
