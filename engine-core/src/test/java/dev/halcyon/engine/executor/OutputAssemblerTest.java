package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.tokenizer.IncrementalDetokenizer;
import dev.halcyon.engine.tokenizer.Tokenizer;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;
import org.junit.jupiter.api.Test;

class OutputAssemblerTest {

  private static OutputAssembler assembler(
      BytesTokenizer tokens, boolean includeStop, int minTokens, String... stops) {
    return new OutputAssembler(
        new IncrementalDetokenizer(tokens, new int[0], true),
        new StopStrings(List.of(stops)),
        includeStop,
        minTokens);
  }

  /** Appends until a stop string matches; the streamed texts, "|" between them. */
  private static String stream(OutputAssembler assembler, int count) {
    List<String> texts = new ArrayList<>();
    for (int i = 0; i < count && !assembler.isFinished(); i++) {
      assembler.append(i);
      texts.add(assembler.takeReleasable().text());
    }
    assembler.finish();
    texts.add(assembler.takeReleasable().text());
    return String.join("|", texts);
  }

  @Test
  void holdsBackWhatMayBecomeAStopStringAndFlushesItOtherwise() {
    BytesTokenizer tokens = BytesTokenizer.of("one", "\n", "\n", "two", "\n", "\n", "#", "x");
    OutputAssembler assembler = assembler(tokens, false, 0, "\n\n#");
    assertThat(stream(assembler, 8)).isEqualTo("one|||\n\ntwo||||");
    assertThat(assembler.text()).isEqualTo("one\n\ntwo");
    assertThat(assembler.tokenCount()).isEqualTo(4);
  }

  @Test
  void findsAStopStringAfterAFalseStart() {
    BytesTokenizer tokens = BytesTokenizer.of("a", "a", "a", "b", "c");
    OutputAssembler assembler = assembler(tokens, false, 0, "aab");
    assertThat(stream(assembler, 5)).isEqualTo("||a||");
    assertThat(assembler.tokenCount()).isEqualTo(1);
  }

  @Test
  void keepsATokenThatBeginsBeforeTheStopString() {
    BytesTokenizer tokens = BytesTokenizer.of("hello ST", "OP more");
    OutputAssembler without = assembler(tokens, false, 0, "STOP");
    assertThat(without.append(0)).isEmpty();
    assertThat(without.takeReleasable().isEmpty()).isTrue();
    assertThat(without.append(1)).hasValue("STOP");
    assertThat(without.takeReleasable()).isEqualTo(new OutputAssembler.Release(0, 1, "hello "));
    OutputAssembler with = assembler(tokens, true, 0, "STOP");
    assertThat(stream(with, 2)).isEqualTo("|hello STOP|");
    assertThat(with.tokenCount()).isEqualTo(2);
  }

  @Test
  void theEarliestEndWinsThenTheLongest() {
    OutputAssembler prefix = assembler(BytesTokenizer.of("xabc"), false, 0, "abc", "ab");
    assertThat(prefix.append(0)).hasValue("ab");
    OutputAssembler suffix = assembler(BytesTokenizer.of("xabc"), false, 0, "bc", "abc", "c");
    assertThat(suffix.append(0)).hasValue("abc");
    assertThat(suffix.text()).isEqualTo("x");
  }

  @Test
  void doesNotMatchBeforeMinTokens() {
    BytesTokenizer tokens = BytesTokenizer.of("a.", "b", ".", "c");
    OutputAssembler assembler = assembler(tokens, false, 3, ".");
    assertThat(assembler.append(0)).isEmpty();
    assertThat(assembler.takeReleasable().text()).isEqualTo("a.");
    assertThat(assembler.append(1)).isEmpty();
    assertThat(assembler.append(2)).hasValue(".");
    assertThat(assembler.text()).isEqualTo("a.b");
    assertThatThrownBy(() -> assembler.append(3)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aStopTokenIsLeftOutOrTheLastText() {
    BytesTokenizer tokens = BytesTokenizer.of("a", "b", ".", "end");
    for (boolean include : new boolean[] {false, true}) {
      OutputAssembler assembler = assembler(tokens, include, 0, "b...");
      assembler.append(0);
      assembler.append(1);
      assertThat(assembler.takeReleasable()).isEqualTo(new OutputAssembler.Release(0, 1, "a"));
      assembler.finishWithStopToken(3);
      assertThat(assembler.tokenCount()).isEqualTo(include ? 3 : 2);
      assertThat(assembler.text()).isEqualTo(include ? "abend" : "ab");
      assertThat(assembler.takeReleasable().text()).isEqualTo(include ? "bend" : "b");
    }
    // A special token without text, 4 being none of the tokens.
    OutputAssembler skipped = assembler(tokens, true, 0);
    skipped.append(0);
    skipped.finishWithStopToken(4);
    assertThat(skipped.takeReleasable()).isEqualTo(new OutputAssembler.Release(0, 2, "a"));
  }

  @Test
  void anOutputCutByItsLengthShowsHalfACharacterAsReplacement() {
    byte[] cat = "猫".getBytes(StandardCharsets.UTF_8);
    BytesTokenizer tokens = new BytesTokenizer(List.of(new byte[] {'a'}, Arrays.copyOf(cat, 2)));
    OutputAssembler assembler = assembler(tokens, false, 0);
    assembler.append(0);
    assembler.append(1);
    assertThat(assembler.takeReleasable()).isEqualTo(new OutputAssembler.Release(0, 2, "a"));
    assembler.finish();
    assertThat(assembler.takeReleasable()).isEqualTo(new OutputAssembler.Release(2, 2, "\uFFFD"));
    assertThat(assembler.text()).isEqualTo("a\uFFFD");
  }

  @Test
  void withoutTextEveryTokenGoesOutAtOnce() {
    OutputAssembler assembler = new OutputAssembler(null, new StopStrings(List.of()), false, 0);
    assembler.append(5);
    assertThat(assembler.takeReleasable()).isEqualTo(new OutputAssembler.Release(0, 1, ""));
    assembler.append(6);
    assembler.finishWithStopToken(7);
    assertThat(assembler.takeReleasable()).isEqualTo(new OutputAssembler.Release(1, 2, ""));
    assertThatThrownBy(() -> new OutputAssembler(null, new StopStrings(List.of("a")), false, 0))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> new StopStrings(Arrays.asList("a", "")))
        .isInstanceOf(IllegalArgumentException.class);
  }

  /** Random texts in random tokens against {@link #expected}; some tokens have half a character. */
  @Test
  void agreesWithTheFirstMatchInTheWholeText() {
    Random random = new Random(11);
    int matched = 0;
    for (int round = 0; round < 20_000; round++) {
      BytesTokenizer tokens = randomTokens(random);
      List<String> stops = randomStops(random);
      boolean includeStop = random.nextBoolean();
      int minTokens = random.nextInt(3) == 0 ? random.nextInt(6) : 0;
      Expected expected = expected(tokens, stops, includeStop, minTokens);
      matched += expected.stop().isPresent() ? 1 : 0;
      check(random, tokens, stops, includeStop, minTokens, expected);
    }
    assertThat(matched).isBetween(5_000, 19_000);
  }

  private static void check(
      Random random,
      BytesTokenizer tokens,
      List<String> stops,
      boolean includeStop,
      int minTokens,
      Expected expected) {
    OutputAssembler assembler =
        assembler(tokens, includeStop, minTokens, stops.toArray(new String[0]));
    String about = tokens.texts() + " stops " + stops + includeStop + minTokens;
    StringBuilder streamed = new StringBuilder();
    int released = 0;
    Optional<String> stop = Optional.empty();
    for (int i = 0; i < tokens.vocabSize() && stop.isEmpty(); i++) {
      stop = assembler.append(i);
      if (random.nextInt(3) > 0) {
        OutputAssembler.Release release = assembler.takeReleasable();
        assertThat(release.fromToken()).as(about).isEqualTo(released);
        released = release.toToken();
        streamed.append(release.text());
        if (stop.isEmpty()) {
          assertThat(released)
              .as(about)
              .isGreaterThanOrEqualTo(tokensOfSafeText(tokens, i + 1, stops));
        }
      }
    }
    assembler.finish();
    OutputAssembler.Release last = assembler.takeReleasable();
    assertThat(last.fromToken()).as(about).isEqualTo(released);
    assertThat(streamed.append(last.text()).toString()).as(about).isEqualTo(expected.text());
    assertThat(last.toToken()).as(about).isEqualTo(expected.tokens());
    assertThat(assembler.tokenCount()).as(about).isEqualTo(expected.tokens());
    assertThat(assembler.text()).as(about).isEqualTo(expected.text());
    assertThat(stop).as(about).isEqualTo(expected.stop());
  }

  private record Expected(Optional<String> stop, String text, int tokens) {}

  /** The rule in its simplest form: look for the first place where a stop string ends, and cut. */
  private static Expected expected(
      BytesTokenizer tokens, List<String> stops, boolean includeStop, int minTokens) {
    String whole = tokens.decodeFirst(tokens.vocabSize());
    String matchable = tokens.completeText(tokens.vocabSize());
    for (int end = 1; end <= matchable.length(); end++) {
      String found = "";
      for (String stop : stops) {
        boolean endsHere = matchable.substring(0, end).endsWith(stop);
        found = endsHere && stop.length() > found.length() ? stop : found;
      }
      if (!found.isEmpty() && tokensFor(tokens, end) >= minTokens) {
        int cut = includeStop ? end : end - found.length();
        return new Expected(Optional.of(found), whole.substring(0, cut), tokensFor(tokens, cut));
      }
    }
    return new Expected(Optional.empty(), whole, tokens.vocabSize());
  }

  /** How many tokens it takes to have so much text. */
  private static int tokensFor(BytesTokenizer tokens, int textLength) {
    int count = 0;
    while (tokens.completeText(count).length() < textLength) {
      count++;
    }
    return count;
  }

  /** How many of the first tokens have only text that no stop string can reach any more. */
  private static int tokensOfSafeText(BytesTokenizer tokens, int count, List<String> stops) {
    String text = tokens.completeText(count);
    int held = 0;
    for (String stop : stops) {
      for (int length = 1; length < stop.length(); length++) {
        held = text.endsWith(stop.substring(0, length)) ? Math.max(held, length) : held;
      }
    }
    int safe = 0;
    while (safe < count && tokens.completeText(safe + 1).length() <= text.length() - held) {
      safe++;
    }
    // Tokens without text at the very end of the safe text wait for what follows.
    while (safe > 0
        && tokens.completeText(safe).equals(tokens.completeText(safe - 1))
        && tokens.completeText(safe).length() == text.length() - held
        && !stops.isEmpty()) {
      safe--;
    }
    return safe;
  }

  private static BytesTokenizer randomTokens(Random random) {
    String[] alphabet = {"a", "b", "a", "b", "é", "猫", "😀"};
    int letters = 2 + random.nextInt(alphabet.length - 1);
    StringBuilder text = new StringBuilder();
    for (int i = random.nextInt(16); i >= 0; i--) {
      text.append(alphabet[random.nextInt(letters)]);
    }
    byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
    int length = bytes.length - random.nextInt(2);
    List<byte[]> tokens = new ArrayList<>();
    for (int at = 0; at < length; ) {
      int end = Math.min(length, at + 1 + random.nextInt(4));
      tokens.add(Arrays.copyOfRange(bytes, at, end));
      at = end;
      if (random.nextInt(8) == 0) {
        tokens.add(new byte[0]);
      }
    }
    return new BytesTokenizer(tokens);
  }

  private static List<String> randomStops(Random random) {
    String[] alphabet = {"a", "b", "a", "猫", "😀"};
    List<String> stops = new ArrayList<>();
    for (int i = random.nextInt(4); i > 0; i--) {
      StringBuilder stop = new StringBuilder();
      for (int j = random.nextInt(4); j >= 0; j--) {
        stop.append(alphabet[random.nextInt(alphabet.length)]);
      }
      stops.add(stop.toString());
    }
    return stops;
  }

  /**
   * Tokens of bytes, the id being the position; one without bytes is skipped, like a special one.
   */
  private record BytesTokenizer(List<byte[]> tokens) implements Tokenizer {

    static BytesTokenizer of(String... texts) {
      return new BytesTokenizer(
          Arrays.stream(texts).map(text -> text.getBytes(StandardCharsets.UTF_8)).toList());
    }

    String decodeFirst(int count) {
      int[] ids = new int[count];
      Arrays.setAll(ids, i -> i);
      return decode(ids, true);
    }

    String completeText(int count) {
      return decodeFirst(count).replaceAll("\uFFFD\\z", "");
    }

    List<String> texts() {
      return tokens.stream().map(Arrays::toString).toList();
    }

    @Override
    public int[] encode(String text, boolean addSpecialTokens) {
      throw new UnsupportedOperationException();
    }

    @Override
    public byte[] tokenBytes(int id) {
      return tokens.get(id).clone();
    }

    @Override
    public String decode(int[] ids, boolean skipSpecialTokens) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      for (int id : ids) {
        bytes.writeBytes(tokens.get(id));
      }
      return bytes.toString(StandardCharsets.UTF_8);
    }

    @Override
    public int vocabSize() {
      return tokens.size();
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
      return id >= tokens.size() || tokens.get(id).length == 0;
    }

    @Override
    public void close() {}
  }
}
