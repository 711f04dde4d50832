package dev.halcyon.engine;

import java.util.List;

/**
 * What a request gave. Outlives the engine; closing it closes its logits views.
 *
 * @param requestId the engine's number for the request
 * @param promptIds the prompt's ids as they were computed, after truncation
 * @param outputs n outputs by index
 * @param usage tokens used
 * @param timing how long it took
 */
public record GenerationResult(
    long requestId,
    List<Integer> promptIds,
    List<GenerationOutput> outputs,
    Usage usage,
    RequestTiming timing)
    implements AutoCloseable {

  public GenerationResult {
    promptIds = List.copyOf(promptIds);
    outputs = List.copyOf(outputs);
  }

  /** The text of the first output. */
  public String text() {
    return outputs.get(0).text();
  }

  /** Frees the logits that the result holds. Harmless when there are none, or when done twice. */
  @Override
  public void close() {
    for (GenerationOutput output : outputs) {
      if (output.generationLogits() != null) {
        output.generationLogits().close();
      }
    }
  }
}
