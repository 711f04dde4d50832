package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationResult;
import java.util.List;

/** How the answer to one request is written. */
interface AnswerFormat {

  /** The whole answer, from one result for each prompt. */
  ObjectNode whole(List<GenerationResult> results);

  /**
   * The events of one prompt's deltas. Called once for each prompt.
   *
   * @param prompt which of the request's prompts, from 0
   */
  Chunks chunks(int prompt);

  /** The event with the usage that ends a stream. */
  ObjectNode usageChunk(List<GenerationResult> results);

  /** Keeps what a prompt's next event depends on. For one thread at a time. */
  interface Chunks {

    /** The events that a delta comes to, none if it has nothing that shows. */
    List<ObjectNode> of(GenerationDelta delta);
  }
}
