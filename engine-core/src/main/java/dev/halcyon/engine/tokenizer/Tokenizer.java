package dev.halcyon.engine.tokenizer;

import dev.halcyon.engine.ModelLoadException;
import java.util.OptionalInt;

/**
 * Text to token ids and back. Safe for use by several threads; after {@link #close()} every call
 * that needs the vocabulary throws {@link IllegalStateException}.
 */
public interface Tokenizer extends AutoCloseable {

  /**
   * The ids of a text. An empty text gives no ids but the special ones. A surrogate without its
   * partner is read as U+FFFD. The names of special tokens within the text become those tokens.
   *
   * @param addSpecialTokens whether to add what the checkpoint puts around a text, such as a begin
   *     token
   */
  int[] encode(String text, boolean addSpecialTokens);

  /**
   * The text of ids decoded as a whole: bytes that are no UTF-8 become U+FFFD. Ids that stand for
   * no token (a model's vocabulary may be padded) have no text.
   *
   * @throws IllegalArgumentException if an id is negative
   */
  String decode(int[] ids, boolean skipSpecialTokens);

  /**
   * What a token adds to a text that it continues, as UTF-8: for a token that is part of a
   * character the part, for a special token its name, for an id that stands for no token nothing.
   *
   * @throws IllegalArgumentException if the id is negative
   */
  byte[] tokenBytes(int id);

  /** One more than the highest token id. */
  int vocabSize();

  /** The token that begins a text, if the checkpoint names one. */
  OptionalInt bosId();

  /** The token that ends a text, if the checkpoint names one. */
  OptionalInt eosId();

  /**
   * Whether decoding leaves the token out: it is special and those are skipped, or there is none.
   */
  boolean isSkipped(int id, boolean skipSpecialTokens);

  /**
   * Checks that the model has an embedding for every token.
   *
   * @param modelVocab rows of the model's embedding
   * @throws ModelLoadException if some token's id lies beyond
   */
  default void requireFits(int modelVocab) {
    if (vocabSize() > modelVocab) {
      throw new ModelLoadException(
          "The tokenizer and the model don't belong together: tokenizer.json has token ids up to "
              + (vocabSize() - 1)
              + ", but the model's vocabulary has "
              + modelVocab
              + " entries. Use the tokenizer.json that was published with these weights.");
    }
  }

  /** Frees native memory. Closing twice is harmless. */
  @Override
  void close();
}
