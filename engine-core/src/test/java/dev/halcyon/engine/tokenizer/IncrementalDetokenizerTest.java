package dev.halcyon.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.OptionalInt;
import java.util.Random;
import java.util.function.IntUnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class IncrementalDetokenizerTest {

  static String[] kinds() {
    return HuggingFaceTokenizerTest.KINDS;
  }

  private static HuggingFaceTokenizer open(String kind) {
    return HuggingFaceTokenizerTest.open(MapFiles.tokenizerFixture(kind));
  }

  private static String join(Tokenizer tokenizer, int[] prompt, boolean skip, int... generated) {
    IncrementalDetokenizer detokenizer = new IncrementalDetokenizer(tokenizer, prompt, skip);
    StringBuilder text = new StringBuilder();
    for (int id : generated) {
      text.append(detokenizer.append(id));
    }
    return text.append(detokenizer.finish()).toString();
  }

  @ParameterizedTest
  @MethodSource("kinds")
  void continuesEveryPrefixOfTheReference(String kind) throws Exception {
    try (Tokenizer tokenizer = open(kind)) {
      for (JsonNode entry : HuggingFaceTokenizerTest.reference(kind).get("decode")) {
        int[] ids = HuggingFaceTokenizerTest.ids(entry.get("ids"));
        for (boolean skip : new boolean[] {false, true}) {
          JsonNode prefixes = entry.get(skip ? "prefixes_skip_special" : "prefixes");
          String whole = prefixes.get(ids.length).textValue();
          for (int split = 0; split <= ids.length; split++) {
            String start = prefixes.get(split).textValue();
            if (whole.startsWith(start)) {
              assertThat(
                      join(
                          tokenizer,
                          Arrays.copyOf(ids, split),
                          skip,
                          Arrays.copyOfRange(ids, split, ids.length)))
                  .isEqualTo(whole.substring(start.length()));
            }
          }
        }
      }
    }
  }

  /**
   * Over random ids, compared with whole decodes. Those with a prefix whose certain text (all
   * before the U+FFFD at its end) the whole decode changes are left out: there no list of pieces
   * can be right. A byte-level decoder never does that.
   */
  @ParameterizedTest
  @MethodSource("kinds")
  void equalsTheWholeDecodeOverRandomIds(String kind) {
    Random random = new Random(7);
    int rounds = 400;
    int compared = 0;
    try (Tokenizer tokenizer = open(kind)) {
      for (int round = 0; round < rounds; round++) {
        int[] ids = randomIds(random, tokenizer);
        int split = random.nextInt(ids.length + 1);
        boolean skip = random.nextBoolean();
        compared += compare(tokenizer, ids, split, skip) ? 1 : 0;
      }
    }
    assertThat(compared).isGreaterThanOrEqualTo(kind.contains("byte-level") ? rounds : rounds / 3);
  }

  /** Mixes single bytes, which make broken and whole characters, with any tokens. */
  private static int[] randomIds(Random random, Tokenizer tokenizer) {
    int[] ids = new int[1 + random.nextInt(48)];
    int bytesIn10 = random.nextInt(11);
    int[] character = tokenizer.encode("猫😀é", false);
    for (int i = 0; i < ids.length; i++) {
      int kind = random.nextInt(10);
      ids[i] = kind < bytesIn10 ? random.nextInt(262) : random.nextInt(tokenizer.vocabSize() + 2);
      if (kind == 9) {
        int from = random.nextInt(character.length);
        for (int j = from; j < character.length && i < ids.length; j++) {
          ids[i++] = character[j];
        }
        i--;
      }
    }
    return ids;
  }

  private static boolean compare(Tokenizer tokenizer, int[] ids, int split, boolean skip) {
    String whole = tokenizer.decode(ids, skip);
    for (int k = 0; k <= ids.length; k++) {
      if (!whole.startsWith(certain(tokenizer.decode(Arrays.copyOf(ids, k), skip)))) {
        return false;
      }
    }
    int[] prompt = Arrays.copyOf(ids, split);
    String promptText = tokenizer.decode(prompt, skip);
    // A prompt may end with half a character that the tokens complete: then it counts as theirs.
    int from = whole.startsWith(promptText) ? promptText.length() : certain(promptText).length();
    IncrementalDetokenizer detokenizer = new IncrementalDetokenizer(tokenizer, prompt, skip);
    StringBuilder text = new StringBuilder();
    for (int i = split; i < ids.length; i++) {
      text.append(detokenizer.append(ids[i]));
      String known = certain(tokenizer.decode(Arrays.copyOf(ids, i + 1), skip));
      assertThat(text.length())
          .as("nothing certain is held at %d of %s after %d", i, Arrays.toString(ids), split)
          .isGreaterThanOrEqualTo(known.length() - from);
      assertThat(whole.substring(from))
          .as("%s after %d skip %s", Arrays.toString(ids), split, skip)
          .startsWith(text.toString());
    }
    text.append(detokenizer.finish());
    assertThat(text.toString())
        .as("%s after %d, skip %s", Arrays.toString(ids), split, skip)
        .isEqualTo(whole.substring(from));
    return true;
  }

  private static String certain(String text) {
    return text.replaceAll("\uFFFD+\\z", "");
  }

  @Test
  void keepsTheSpaceOfAFirstGeneratedWord() {
    try (Tokenizer tokenizer = open("sentencepiece-bpe")) {
      int[] word = tokenizer.encode("the", false);
      assertThat(join(tokenizer, tokenizer.encode("a", true), true, word)).isEqualTo(" the");
      // After nothing but a skipped <s>, the whole decode begins without a space.
      assertThat(join(tokenizer, new int[] {1}, true, word)).isEqualTo("the");
    }
  }

  @Test
  void givesASplitCharacterOnceAndWhole() {
    try (Tokenizer tokenizer = open("byte-level-bpe")) {
      int[] cat = tokenizer.encode("猫", false);
      assertThat(cat).hasSize(3);
      IncrementalDetokenizer detokenizer =
          new IncrementalDetokenizer(tokenizer, new int[] {64}, true);
      assertThat(detokenizer.append(cat[0])).isEmpty();
      assertThat(detokenizer.append(cat[1])).isEmpty();
      assertThat(detokenizer.append(cat[2])).isEqualTo("猫");
      assertThat(detokenizer.append(cat[0])).isEmpty();
      assertThat(detokenizer.finish()).isEqualTo("\uFFFD");
      assertThat(detokenizer.finish()).isEmpty();
    }
  }

  @Test
  void completesTheCharacterThatThePromptBegan() {
    for (String kind : new String[] {"byte-level-bpe", "sentencepiece-bpe"}) {
      try (Tokenizer tokenizer = open(kind)) {
        int[] cat = tokenizer.encode("a猫", false);
        int[] prompt = Arrays.copyOf(cat, cat.length - 2);
        assertThat(
                join(tokenizer, prompt, true, Arrays.copyOfRange(cat, cat.length - 2, cat.length)))
            .isEqualTo("猫");
      }
    }
  }

  @Test
  void keepsACharacterThatAByteFallbackDecoderWouldTakeBack() {
    try (Tokenizer tokenizer = open("sentencepiece-bpe")) {
      int[] cat = tokenizer.encode("a猫", false);
      int the = tokenizer.encode("the", false)[0];
      int[] ids = Arrays.copyOf(cat, cat.length + 2);
      ids[cat.length] = 3 + 0xFF; // the byte FF: three tokens come before the bytes
      ids[cat.length + 1] = the;
      assertThat(tokenizer.decode(ids, true)).isEqualTo("a\uFFFD\uFFFD\uFFFD\uFFFD the");
      assertThat(join(tokenizer, new int[0], true, ids)).isEqualTo("a猫\uFFFD the");
    }
  }

  @Test
  void invalidBytesDoNotStallTheOutput() {
    try (Tokenizer tokenizer = open("sentencepiece-bpe")) {
      IncrementalDetokenizer detokenizer =
          new IncrementalDetokenizer(tokenizer, new int[] {350}, true);
      int length = 0;
      for (int i = 1; i <= 1000; i++) {
        length += detokenizer.append(3 + 0xFF).length();
        assertThat(length).isGreaterThanOrEqualTo(i - 4);
      }
      assertThat(length + detokenizer.finish().length()).isEqualTo(1000);
    }
  }

  @ParameterizedTest
  @MethodSource("kinds")
  void decodesAFewTokensForEachTokenHoweverLongTheTextIs(String kind) {
    int count = 5000;
    try (HuggingFaceTokenizer tokenizer = open(kind)) {
      int[] straddling = tokenizer.encode("猫".repeat(8), false);
      int space = tokenizer.encode(" ", false)[0];
      Random random = new Random(3);
      IntUnaryOperator[] streams = {
        i -> random.nextInt(tokenizer.vocabSize()),
        i -> 3 + 0xFF,
        i -> space,
        i -> straddling[i % straddling.length],
        i -> tokenizer.bosId().getAsInt(),
        i -> tokenizer.vocabSize() + 5
      };
      for (IntUnaryOperator stream : streams) {
        CountingTokenizer counting = new CountingTokenizer(tokenizer);
        int[] prompt = tokenizer.encode("The heron waits.", true);
        IncrementalDetokenizer detokenizer = new IncrementalDetokenizer(counting, prompt, true);
        for (int i = 0; i < count; i++) {
          detokenizer.append(stream.applyAsInt(i));
        }
        detokenizer.finish();
        assertThat(counting.decoded).isLessThan(40L * count);
      }
    }
  }

  /**
   * A byte-level vocabulary may have tokens that end amid a character, each completed by the next.
   */
  @Test
  void staysFastWhenEveryTokenEndsAmidACharacter() {
    CountingTokenizer counting = new CountingTokenizer(new StraddlingTokenizer());
    IncrementalDetokenizer detokenizer = new IncrementalDetokenizer(counting, new int[0], false);
    StringBuilder text = new StringBuilder(detokenizer.append(0));
    for (int i = 0; i < 3000; i++) {
      String piece = detokenizer.append(1);
      assertThat(piece).isEqualTo("猫");
      text.append(piece);
    }
    assertThat(text.append(detokenizer.finish()).toString()).isEqualTo("猫".repeat(3000) + "\uFFFD");
    assertThat(counting.decoded).isLessThan(40L * 3000);
  }

  /** Token 0 is the first byte of 猫, token 1 the other two and the first byte of the next 猫. */
  private record StraddlingTokenizer() implements Tokenizer {

    @Override
    public int[] encode(String text, boolean addSpecialTokens) {
      throw new UnsupportedOperationException();
    }

    @Override
    public byte[] tokenBytes(int id) {
      throw new UnsupportedOperationException();
    }

    @Override
    public String decode(int[] ids, boolean skipSpecialTokens) {
      byte[][] tokens = {{(byte) 0xE7}, {(byte) 0x8C, (byte) 0xAB, (byte) 0xE7}};
      java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
      for (int id : ids) {
        bytes.writeBytes(tokens[id]);
      }
      return bytes.toString(java.nio.charset.StandardCharsets.UTF_8);
    }

    @Override
    public int vocabSize() {
      return 2;
    }

    @Override
    public OptionalInt bosId() {
      return OptionalInt.empty();
    }

    @Override
    public OptionalInt eosId() {
      return OptionalInt.empty();
    }

    @Override
    public boolean isSkipped(int id, boolean skipSpecialTokens) {
      return false;
    }

    @Override
    public void close() {}
  }

  private static final class CountingTokenizer implements Tokenizer {
    private final Tokenizer delegate;
    private long decoded;

    CountingTokenizer(Tokenizer delegate) {
      this.delegate = delegate;
    }

    @Override
    public int[] encode(String text, boolean addSpecialTokens) {
      return delegate.encode(text, addSpecialTokens);
    }

    @Override
    public byte[] tokenBytes(int id) {
      return delegate.tokenBytes(id);
    }

    @Override
    public String decode(int[] ids, boolean skipSpecialTokens) {
      decoded += ids.length;
      return delegate.decode(ids, skipSpecialTokens);
    }

    @Override
    public int vocabSize() {
      return delegate.vocabSize();
    }

    @Override
    public OptionalInt bosId() {
      return delegate.bosId();
    }

    @Override
    public OptionalInt eosId() {
      return delegate.eosId();
    }

    @Override
    public boolean isSkipped(int id, boolean skipSpecialTokens) {
      return delegate.isSkipped(id, skipSpecialTokens);
    }

    @Override
    public void close() {
      delegate.close();
    }
  }
}
