package dev.halcyon.engine.tokenizer;

import java.util.Arrays;

/**
 * The text of a growing list of token ids, piece by piece, as the continuation of a prompt. A piece
 * never has half a character: what may still become one is held until later tokens complete it,
 * prove it invalid, or {@link #finish()} says that none will come. Text that was given out is never
 * taken back.
 *
 * <p>Joined, the pieces are what decoding prompt and tokens as a whole adds to the decoded prompt.
 * (Where a whole decode changes earlier text in hindsight, as byte-fallback decoders do to complete
 * characters when an invalid byte follows them directly, the earlier text stays and the later bytes
 * are decoded by themselves.)
 *
 * <p>Method: a window of the last tokens is decoded each time, beginning with tokens whose text is
 * already out, so that decoders which treat the first token differently (leading spaces) see a
 * later one. Each token costs a decode of a few tokens whatever the length of the text.
 *
 * <p>Not safe for use by several threads at once.
 */
public final class IncrementalDetokenizer {

  private static final char INVALID = '\uFFFD';

  /** A UTF-8 character has at most so many bytes, and a token at least one byte. */
  private static final int LONGEST_CHARACTER = 4;

  /**
   * How many of the prompt's tokens the window begins with, for as long as it takes to emit the
   * first text: many, since a byte-fallback decoder judges a run of bytes as a whole.
   */
  private static final int PROMPT_TAIL = 64;

  /** With so many pending tokens a window whose end stays incomplete is shortened. */
  private static final int LONG_WINDOW = 32;

  private static final int KEPT_TAIL = 2 * LONGEST_CHARACTER;

  private final Tokenizer tokenizer;
  private final boolean skipSpecialTokens;

  private int[] window = new int[LONG_WINDOW];
  private int size;

  /** How many tokens at the window's start are there for context: all of their text is out. */
  private int context;

  /** The decoded window's beginning that is out; a prefix of the decoded window. */
  private String emitted;

  /** Whether text of tokens behind the context is out. */
  private boolean pendingEmitted;

  private int nextShortening = LONG_WINDOW;

  /**
   * @param promptIds the tokens that the text continues; may be empty
   * @param skipSpecialTokens whether special tokens have no text
   */
  public IncrementalDetokenizer(Tokenizer tokenizer, int[] promptIds, boolean skipSpecialTokens) {
    this.tokenizer = tokenizer;
    this.skipSpecialTokens = skipSpecialTokens;
    beginWith(promptIds);
  }

  /**
   * Adds a token.
   *
   * @return the text that is certain now and was not before; often that of the token, or ""
   */
  public String append(int id) {
    if (tokenizer.isSkipped(id, skipSpecialTokens)) {
      return "";
    }
    add(id);
    String text = decode(0, size);
    if (!text.startsWith(emitted)) {
      text = rebase(text);
    }
    if (text.equals(emitted) && !text.isEmpty() && size == context + 1 && !endsInvalid(text)) {
      // A token without text: kept, a long run of them would make the window long.
      size--;
      return "";
    }
    int certain = certainLength(text);
    String piece = certain > emitted.length() ? text.substring(emitted.length(), certain) : "";
    if (!endsInvalid(text)) {
      commit(text);
    } else {
      if (!piece.isEmpty()) {
        emitted = text.substring(0, certain);
        pendingEmitted = true;
      }
      shortenIfLong(text);
    }
    return piece;
  }

  /** The rest of the text: U+FFFD for bytes that were to become a character and did not. */
  public String finish() {
    if (size == context) {
      return "";
    }
    String text = decode(0, size);
    String rest = text.length() > emitted.length() ? text.substring(emitted.length()) : "";
    context = size;
    emitted = text;
    return rest;
  }

  private void beginWith(int[] promptIds) {
    int from = promptIds.length;
    for (int kept = 0; from > 0 && kept < PROMPT_TAIL; ) {
      kept += tokenizer.isSkipped(promptIds[--from], skipSpecialTokens) ? 0 : 1;
    }
    for (int i = from; i < promptIds.length; i++) {
      if (!tokenizer.isSkipped(promptIds[i], skipSpecialTokens)) {
        add(promptIds[i]);
      }
    }
    String text = decode(0, size);
    context = size;
    emitted = text;
  }

  /** The text to go on with when decoding gave something else than before for text that is out. */
  private String rebase(String text) {
    String complete = withoutInvalidEnd(emitted);
    if (atPromptEnd(complete) && text.startsWith(complete)) {
      // The prompt ended with half a character, and the other half has come.
      emitted = complete;
      return text;
    }
    System.arraycopy(window, context, window, 0, size - context);
    size -= context;
    context = 0;
    String pending = decode(0, size);
    emitted = pendingEmitted ? withoutInvalidEnd(pending) : "";
    return pending;
  }

  private boolean atPromptEnd(String complete) {
    return !pendingEmitted && complete.length() < emitted.length();
  }

  /**
   * How much of the decoded window no later token can change. Of a run of U+FFFD at the end the
   * last may become a character; a byte-fallback decoder gives one for every byte, so that up to
   * three may.
   */
  private int certainLength(String text) {
    int complete = withoutInvalidEnd(text).length();
    int invalid = text.length() - complete;
    return Math.max(
        Math.min(emitted.length(), text.length()),
        invalid >= LONGEST_CHARACTER ? text.length() - 1 : complete);
  }

  /** All of the window's text is out: what was pending becomes the context of what follows. */
  private void commit(String text) {
    int start = context;
    String tail = start < size ? decode(start, size) : text;
    // Text is needed before what follows, or a decoder would take that for the beginning; and what
    // is
    // pending may begin amid a character that the prompt began.
    while (start > 0 && (tail.isEmpty() || tail.charAt(0) == INVALID)) {
      start--;
      tail = decode(start, size);
    }
    if (tail.isEmpty() && size > KEPT_TAIL) {
      start = 0;
      size--;
    }
    System.arraycopy(window, start, window, 0, size - start);
    size -= start;
    context = size;
    emitted = tail;
    pendingEmitted = false;
    nextShortening = LONG_WINDOW;
  }

  /**
   * Keeps a window short whose end has been incomplete for long. Only its last few tokens count for
   * what follows, and the first few pending ones where they spoil a whole run of bytes.
   */
  private void shortenIfLong(String text) {
    if (size - context < nextShortening) {
      return;
    }
    int pending = text.length() - emitted.length();
    int run = text.length() - withoutInvalidEnd(text).length();
    int head = run >= LONGEST_CHARACTER ? context + LONGEST_CHARACTER : 0;
    if (size < head + 2 * KEPT_TAIL) {
      return;
    }
    int[] shorter = Arrays.copyOf(window, head + KEPT_TAIL);
    System.arraycopy(window, size - KEPT_TAIL, shorter, head, KEPT_TAIL);
    String shortText = tokenizer.decode(shorter, skipSpecialTokens);
    int shortRun = shortText.length() - withoutInvalidEnd(shortText).length();
    if (run < LONGEST_CHARACTER ? shortRun == run : shortRun >= LONGEST_CHARACTER) {
      System.arraycopy(shorter, 0, window, 0, shorter.length);
      size = shorter.length;
      context = Math.min(context, head);
      emitted = shortText.substring(0, shortText.length() - pending);
      pendingEmitted = true;
    } else {
      // The end hangs together in some other way: look again when it has doubled.
      nextShortening = 2 * (size - context);
    }
  }

  private void add(int id) {
    if (size == window.length) {
      window = Arrays.copyOf(window, 2 * size);
    }
    window[size++] = id;
  }

  private String decode(int from, int to) {
    return from == to
        ? ""
        : tokenizer.decode(Arrays.copyOfRange(window, from, to), skipSpecialTokens);
  }

  private static boolean endsInvalid(String text) {
    return !text.isEmpty() && text.charAt(text.length() - 1) == INVALID;
  }

  private static String withoutInvalidEnd(String text) {
    int end = text.length();
    while (end > 0 && text.charAt(end - 1) == INVALID) {
      end--;
    }
    return text.substring(0, end);
  }
}
