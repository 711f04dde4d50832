package dev.halcyon.engine.executor;

import dev.halcyon.engine.tokenizer.IncrementalDetokenizer;
import java.util.Arrays;
import java.util.Optional;

/**
 * Ties one output's tokens to its text: finds stop strings, cuts text and tokens together, and says
 * what may be streamed. The executor keeps ids, logprobs and logits rows by token index, and cuts
 * them all at {@link #tokenCount()}.
 *
 * <p>What was released is never taken back: text that may yet become a stop string is held, with
 * its tokens, until it does or doesn't. Joined, the released texts are exactly {@link #text()} of
 * the finished output, however often {@link #takeReleasable()} was called.
 *
 * <p>A token's text is what it completed: a character split over tokens counts as the last one's. A
 * cut keeps the tokens up to the one that completes the text before it, so tokens without text
 * right before a stop string (perhaps the first half of its first character) go with it.
 *
 * <p>Not safe for use by several threads at once.
 */
final class OutputAssembler {

  /**
   * What is new to stream.
   *
   * @param fromToken index of the first new token
   * @param toToken index behind the last one
   * @param text the new text
   */
  record Release(int fromToken, int toToken, String text) {

    boolean isEmpty() {
      return fromToken == toToken && text.isEmpty();
    }
  }

  private final IncrementalDetokenizer detokenizer;
  private final StopStrings stops;
  private final boolean includeStop;
  private final int minTokens;

  private final StringBuilder text = new StringBuilder();

  /** By token: the length of the text with it. */
  private int[] textEnds = new int[16];

  private int tokens;
  private int stopState = StopStrings.START;
  private int releasedTokens;
  private int releasedText;
  private boolean finished;

  /**
   * @param detokenizer null for an output without text; then there can be no stop strings
   * @param includeStop whether a stop string, or the text of a stop token, stays in the output
   * @param minTokens stop strings aren't matched as long as there are fewer tokens
   */
  OutputAssembler(
      IncrementalDetokenizer detokenizer, StopStrings stops, boolean includeStop, int minTokens) {
    if (detokenizer == null && !stops.isEmpty()) {
      throw new IllegalArgumentException("stop strings need detokenize = true");
    }
    this.detokenizer = detokenizer;
    this.stops = stops;
    this.includeStop = includeStop;
    this.minTokens = minTokens;
  }

  /**
   * Adds a generated token.
   *
   * @return the stop string that this token completed; the output is cut and finished then. Of
   *     several, the one that ends first; of those that end together, the longest.
   */
  Optional<String> append(int tokenId) {
    requireUnfinished();
    int before = text.length();
    addToken(detokenizer == null ? "" : detokenizer.append(tokenId));
    if (stops.isEmpty()) {
      return Optional.empty();
    }
    for (int i = before; i < text.length(); i++) {
      stopState = stops.next(stopState, text.charAt(i));
      String match = stops.match(stopState);
      if (match != null && tokens >= minTokens) {
        cut(includeStop ? i + 1 : i + 1 - match.length());
        return Optional.of(match);
      }
    }
    return Optional.empty();
  }

  /**
   * Finishes the output by a token that ends it, which is not to be appended. It is left out,
   * unless includeStop was asked for: then it is the last token, and its text (if it has one) the
   * last text.
   */
  void finishWithStopToken(int tokenId) {
    requireUnfinished();
    if (includeStop) {
      addToken(detokenizer == null ? "" : detokenizer.append(tokenId));
    }
    finish();
  }

  /**
   * Finishes the output because of its length, a timeout or a cancellation: all held text goes out,
   * the beginning of a character as U+FFFD. Does nothing once the output is finished.
   */
  void finish() {
    if (finished) {
      return;
    }
    finished = true;
    if (detokenizer != null) {
      text.append(detokenizer.finish());
    }
    if (tokens > 0) {
      textEnds[tokens - 1] = text.length();
    }
  }

  /**
   * Ends the output as another engine will go on with it: all its tokens go out, with the text that
   * is complete. What may yet become a stop string or a character is not decided here.
   */
  void suspend() {
    requireUnfinished();
    finished = true;
  }

  /** What is certain by now and was not released yet. */
  Release takeReleasable() {
    int safeText = finished ? text.length() : text.length() - stops.heldBack(stopState);
    int toToken = releasedTokens;
    while (toToken < tokens && isReleasable(toToken, safeText)) {
      toToken++;
    }
    int toText = toToken == 0 ? 0 : textEnds[toToken - 1];
    Release release = new Release(releasedTokens, toToken, text.substring(releasedText, toText));
    releasedTokens = toToken;
    releasedText = toText;
    return release;
  }

  /** How many tokens the output has; once it is finished, how many it keeps. */
  int tokenCount() {
    return tokens;
  }

  /** The text so far, held back or not; once the output is finished, its text. */
  String text() {
    return text.toString();
  }

  boolean isFinished() {
    return finished;
  }

  /**
   * A cut can come anywhere from safeText on. A token whose text ends before stays; but one without
   * text that stands right there might be cut off.
   */
  private boolean isReleasable(int token, int safeText) {
    if (finished || stops.isEmpty()) {
      return true;
    }
    int start = token == 0 ? 0 : textEnds[token - 1];
    return start < safeText && textEnds[token] <= safeText;
  }

  private void cut(int end) {
    finished = true;
    text.setLength(end);
    while (tokens > 0 && (tokens == 1 ? 0 : textEnds[tokens - 2]) >= end) {
      tokens--;
    }
    if (tokens > 0) {
      textEnds[tokens - 1] = end;
    }
  }

  private void addToken(String piece) {
    text.append(piece);
    if (tokens == textEnds.length) {
      textEnds = Arrays.copyOf(textEnds, 2 * tokens);
    }
    textEnds[tokens++] = text.length();
  }

  private void requireUnfinished() {
    if (finished) {
      throw new IllegalStateException("The output is finished");
    }
  }
}
