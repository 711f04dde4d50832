package dev.halcyon.engine.benchmarks;

/**
 * The vocabulary of the random checkpoint. The letters a to z are tokens and nothing merges, so
 * that a prompt of n letters is n tokens for every engine, also for one that takes only text; every
 * other token is a printable word of its own. The same ids are laid out by
 * scripts/peers/GgufWriter.java.
 */
final class BenchmarkVocabulary {

  static final int UNKNOWN = 0;
  static final int BEGIN = 1;
  static final int END = 2;
  static final int SPECIALS = 3;

  private static final int FIRST_BYTE = SPECIALS;
  static final int FIRST_LETTER = FIRST_BYTE + 256;
  static final int LETTERS = 26;
  static final int MIN_SIZE = FIRST_LETTER + LETTERS;

  private BenchmarkVocabulary() {}

  /** The text of a token. */
  static String token(int id) {
    if (id == UNKNOWN) {
      return "<unk>";
    } else if (id == BEGIN) {
      return "<s>";
    } else if (id == END) {
      return "</s>";
    } else if (id < FIRST_LETTER) {
      return String.format("<0x%02X>", id - FIRST_BYTE);
    } else if (id < MIN_SIZE) {
      return String.valueOf((char) ('a' + id - FIRST_LETTER));
    }
    return "\u2581w" + id;
  }
}
