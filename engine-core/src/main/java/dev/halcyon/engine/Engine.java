package dev.halcyon.engine;

import dev.halcyon.engine.executor.GenerationExecutor;
import dev.halcyon.engine.executor.OpenModel;
import dev.halcyon.engine.tokenizer.ChatTemplate;
import dev.halcyon.engine.tokenizer.Tokenizer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * An embedded LLM inference engine. Opened on a checkpoint, it runs requests of any number of
 * threads together in one batch until it is closed. All methods may be called from any thread.
 *
 * <pre>{@code
 * try (Engine engine = Engine.builder().defaultModel().build()) {
 *   System.out.println(engine.generate("Once upon a time").text());
 * }
 * }</pre>
 */
public final class Engine implements AutoCloseable {

  private final EngineOptions options;
  private final OpenModel model;
  private final GenerationExecutor executor;

  private Engine(EngineOptions options, OpenModel model) {
    this.options = options;
    this.model = model;
    this.executor = model.executor();
  }

  public static EngineBuilder builder() {
    return new EngineBuilder();
  }

  static Engine open(EngineOptions options) {
    return new Engine(options, OpenModel.open(options));
  }

  /** Continues a text, with {@link SamplingParams}' defaults. */
  public GenerationResult generate(String prompt) {
    return generate(GenerationRequest.builder(prompt).build());
  }

  /** Continues a text. */
  public GenerationResult generate(String prompt, SamplingParams params) {
    return generate(GenerationRequest.of(prompt, params));
  }

  /**
   * Runs a request and waits for its result. If the waiting thread is interrupted, the request is
   * cancelled.
   *
   * @throws IllegalArgumentException if the request asks for something that can never be right
   * @throws EngineException if it can't run here, or fails
   */
  public GenerationResult generate(GenerationRequest request) {
    return submit(request).await();
  }

  /**
   * Runs requests together and waits for all results, in the order of the requests. If one fails,
   * the others are cancelled and its error is thrown.
   */
  public List<GenerationResult> generate(List<GenerationRequest> requests) {
    List<GenerationHandle> handles = new ArrayList<>();
    List<GenerationResult> results = new ArrayList<>();
    try {
      for (GenerationRequest request : requests) {
        handles.add(submit(request));
      }
      for (GenerationHandle handle : handles) {
        results.add(handle.await());
      }
    } catch (RuntimeException | Error e) {
      handles.forEach(GenerationHandle::cancel);
      results.forEach(GenerationResult::close);
      throw e;
    }
    return results;
  }

  /**
   * Continues a conversation with the assistant's next message, through the checkpoint's chat
   * template.
   *
   * @throws UnsupportedRequestException if the checkpoint has no chat template
   * @throws IllegalArgumentException if the template refuses the messages
   */
  public GenerationResult chat(List<ChatMessage> messages, SamplingParams params) {
    return generate(GenerationRequest.of(messages, params));
  }

  /**
   * Submits a request and returns at once, or waits for a place in the queue if so configured.
   *
   * @throws IllegalArgumentException if the request asks for something that can never be right
   * @throws QueueFullException if too many wait already
   * @throws RequestTooLargeException if it can never run with this engine's limits
   * @throws UnsupportedRequestException if it asks for something that this engine can't do
   * @throws EngineClosedException if the engine is closed
   */
  public GenerationHandle submit(GenerationRequest request) {
    return whileOpen(() -> executor.submit(request, encoded(request)));
  }

  /**
   * Runs what uses the tokenizer; if the engine is closed meanwhile, that is what the caller hears.
   */
  private <T> T whileOpen(Supplier<T> work) {
    executor.requireOpen();
    try {
      return work.get();
    } catch (IllegalStateException e) {
      executor.requireOpen();
      throw e;
    }
  }

  /**
   * The token ids that a request's prompt comes to, before truncation.
   *
   * @throws UnsupportedRequestException if the checkpoint has no tokenizer or chat template for it
   * @throws IllegalArgumentException if the template refuses the messages
   */
  public int[] promptIds(GenerationRequest request) {
    return whileOpen(() -> encoded(request));
  }

  private int[] encoded(GenerationRequest request) {
    if (request.promptIds() != null) {
      return request.promptIds();
    }
    if (request.prompt() != null) {
      return requireTokenizer().encode(request.prompt(), true);
    }
    return requireTokenizer().encode(renderChat(request.messages()), false);
  }

  /**
   * The prompt text that a conversation comes to.
   *
   * @throws UnsupportedRequestException if the checkpoint has no chat template
   * @throws IllegalArgumentException if the template refuses the messages
   */
  public String renderChat(List<ChatMessage> messages) {
    ChatTemplate template =
        model
            .chatTemplate()
            .orElseThrow(
                () ->
                    new UnsupportedRequestException(
                        "The checkpoint has no chat template; give the prompt as text or ids"));
    return template.render(messages, true);
  }

  /**
   * The token ids of a text, with the special tokens that the checkpoint puts around a prompt.
   *
   * @throws UnsupportedRequestException if the checkpoint has no tokenizer
   */
  public int[] tokenize(String text) {
    return whileOpen(() -> requireTokenizer().encode(text, true));
  }

  /**
   * The text of token ids, without special tokens.
   *
   * @throws UnsupportedRequestException if the checkpoint has no tokenizer
   */
  public String detokenize(int[] tokenIds) {
    return whileOpen(() -> requireTokenizer().decode(tokenIds, true));
  }

  /**
   * What a token adds to a text that it continues, as UTF-8. A token may be part of a character
   * only, so that its bytes are no text by themselves; a special token gives its name, an id that
   * stands for no token nothing.
   *
   * @throws UnsupportedRequestException if the checkpoint has no tokenizer
   * @throws IllegalArgumentException if the id is negative
   */
  public byte[] tokenBytes(int tokenId) {
    return whileOpen(() -> requireTokenizer().tokenBytes(tokenId));
  }

  /**
   * Returns if the engine takes requests.
   *
   * @throws EngineClosedException if it is closed
   * @throws EngineFailedException if it broke
   */
  public void requireOpen() {
    executor.requireOpen();
  }

  /** Entries of the vocabulary: the length of a row of logits. */
  public int vocabSize() {
    return model.vocabSize();
  }

  /** Tokens of prompt and output together that a sequence can have. */
  public int maxSequenceLength() {
    return model.maxSequenceLength();
  }

  /** The name of the backend that computes, such as "cpu". */
  public String backendName() {
    return model.backendName();
  }

  /** What the engine was opened with. */
  public EngineOptions options() {
    return options;
  }

  /** What the engine is doing, as of the end of its last step. */
  public EngineMetrics metrics() {
    return executor.metrics();
  }

  /**
   * Ends or drains what runs, as {@link EngineBuilder#closeMode} says, frees all memory and returns
   * when that is done. May be called from any thread, under load, and more than once; called from
   * within a callback of the engine it returns at once and the closing goes on behind.
   */
  @Override
  public void close() {
    executor.close();
  }

  private Tokenizer requireTokenizer() {
    return model
        .tokenizer()
        .orElseThrow(
            () ->
                new UnsupportedRequestException(
                    "The checkpoint has no tokenizer.json; give the prompt as token ids"));
  }
}
