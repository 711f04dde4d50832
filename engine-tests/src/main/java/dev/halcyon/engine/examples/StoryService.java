package dev.halcyon.engine.examples;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.QueueFullPolicy;
import dev.halcyon.engine.SamplingParams;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;

/**
 * A Java service that embeds the engine: one engine for the life of the service, called from many
 * threads at once, whose requests share its batches. Run it to see eight callers tell stories
 * together.
 */
public final class StoryService implements AutoCloseable {

  private static final SamplingParams STORY =
      SamplingParams.builder().temperature(0.5f).topP(0.95f).maxTokens(120).build();

  private final Engine engine;

  /** Opens the engine once; a caller beyond the queue's limit waits for a place. */
  public StoryService() {
    engine =
        Engine.builder()
            .defaultModel()
            .maxBatchSize(8)
            .maxQueuedRequests(64)
            .queueFullPolicy(QueueFullPolicy.WAIT)
            .build();
  }

  /** A whole story, or what there is of it after ten seconds. */
  public String tell(String opening, long seed) {
    GenerationRequest request =
        GenerationRequest.builder(opening)
            .params(STORY.toBuilder().seed(seed).build())
            .timeout(Duration.ofSeconds(10))
            .build();
    try (GenerationResult result = engine.generate(request)) {
      return opening + result.text();
    }
  }

  /** The first sentence only: leaving the stream early cancels the request. */
  public String firstSentence(String opening) {
    StringBuilder text = new StringBuilder(opening);
    GenerationHandle handle = engine.submit(GenerationRequest.of(opening, STORY));
    try (Stream<GenerationDelta> deltas = handle.stream()) {
      deltas.takeWhile(delta -> text.indexOf(".") < 0).forEach(delta -> text.append(delta.text()));
    }
    int end = text.indexOf(".");
    return end < 0 ? text.toString() : text.substring(0, end + 1);
  }

  /** How busy the service is, for a health page. */
  public String status() {
    var metrics = engine.metrics();
    return String.format(
        "%d running, %d waiting, %.0f tokens/s, %d of %d blocks free",
        metrics.runningSequences(),
        metrics.waitingSequences(),
        metrics.tokensPerSecond(),
        metrics.freeBlocks(),
        metrics.totalBlocks());
  }

  @Override
  public void close() {
    engine.close();
  }

  public static void main(String[] args) throws InterruptedException, ExecutionException {
    List<String> openings =
        List.of(
            "Once upon a time",
            "The cat",
            "One day, Tom",
            "Lily had a red ball.",
            "There was a big dog",
            "Mom said,",
            "It was a sunny day",
            "A little bird");
    ExecutorService callers = Executors.newFixedThreadPool(openings.size());
    try (StoryService service = new StoryService()) {
      List<Future<String>> stories = new ArrayList<>();
      for (int i = 0; i < openings.size(); i++) {
        String opening = openings.get(i);
        long seed = i;
        stories.add(callers.submit(() -> service.tell(opening, seed)));
      }
      for (Future<String> story : stories) {
        System.out.println(story.get());
        System.out.println();
      }
      System.out.println(service.firstSentence("Once upon a time"));
      System.out.println(service.status());
    } finally {
      callers.shutdown();
    }
  }
}
