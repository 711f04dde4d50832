package dev.halcyon.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.halcyon.engine.ModelLoadException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HuggingFaceTokenizerTest {

  static final String[] KINDS = {
    "sentencepiece-bpe",
    "byte-level-bpe",
    "split-byte-level-bpe",
    "metaspace-bpe",
    "metaspace-unk-bpe"
  };

  static HuggingFaceTokenizer open(MapFiles files) {
    return HuggingFaceTokenizer.open(files, TokenizerConfig.read(files));
  }

  static JsonNode reference(String kind) throws Exception {
    return new ObjectMapper()
        .readTree(MapFiles.text("/fixtures/tokenizers/" + kind + "/reference.json"));
  }

  static int[] ids(JsonNode array) {
    int[] ids = new int[array.size()];
    Arrays.setAll(ids, i -> array.get(i).intValue());
    return ids;
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "sentencepiece-bpe",
        "byte-level-bpe",
        "split-byte-level-bpe",
        "metaspace-bpe",
        "metaspace-unk-bpe"
      })
  void givesTheIdsAndTextsOfTheReference(String kind) throws Exception {
    JsonNode reference = reference(kind);
    assertThat(reference.get("encode")).isNotEmpty();
    try (Tokenizer tokenizer = open(MapFiles.tokenizerFixture(kind))) {
      for (JsonNode entry : reference.get("encode")) {
        String text = entry.get("text").textValue();
        assertThat(tokenizer.encode(text, true)).as(text).isEqualTo(ids(entry.get("ids")));
        assertThat(tokenizer.encode(text, false))
            .as(text)
            .isEqualTo(ids(entry.get("ids_without_special")));
      }
      for (JsonNode entry : reference.get("decode")) {
        int[] ids = ids(entry.get("ids"));
        for (int length = 0; length <= ids.length; length++) {
          int[] prefix = Arrays.copyOf(ids, length);
          assertThat(tokenizer.decode(prefix, false))
              .isEqualTo(entry.get("prefixes").get(length).textValue());
          assertThat(tokenizer.decode(prefix, true))
              .isEqualTo(entry.get("prefixes_skip_special").get(length).textValue());
        }
      }
    }
  }

  @Test
  void knowsItsVocabularyAndItsSpecialTokens() {
    try (Tokenizer tokenizer = open(MapFiles.tokenizerFixture("split-byte-level-bpe"))) {
      // From tokenizer.json: 420 trained tokens and "zinc", then <|begin|> 421, <|end|> 422,
      // <think> 423 (added, not special), <|mask|> 424.
      assertThat(tokenizer.vocabSize()).isEqualTo(425);
      assertThat(tokenizer.bosId()).hasValue(421);
      assertThat(tokenizer.eosId()).hasValue(422);
      assertThat(tokenizer.isSkipped(421, true)).isTrue();
      assertThat(tokenizer.isSkipped(421, false)).isFalse();
      assertThat(tokenizer.isSkipped(423, true)).isFalse();
      assertThat(tokenizer.isSkipped(425, false)).isTrue();
      assertThat(tokenizer.decode(new int[] {500, 64, 425}, false)).isEqualTo("a");
    }
  }

  @Test
  void refusesAModelWithFewerEmbeddingsThanTokens() {
    try (Tokenizer tokenizer = open(MapFiles.tokenizerFixture("split-byte-level-bpe"))) {
      assertThatCode(() -> tokenizer.requireFits(425)).doesNotThrowAnyException();
      assertThatThrownBy(() -> tokenizer.requireFits(424))
          .isInstanceOf(ModelLoadException.class)
          .hasMessageContainingAll("424", "up to 424", "424 entries");
    }
  }

  @Test
  void readsAnUnpairedSurrogateAsTheReplacementCharacter() {
    try (Tokenizer tokenizer = open(MapFiles.tokenizerFixture("byte-level-bpe"))) {
      int[] replaced = tokenizer.encode("a\uFFFDb\uFFFD", true);
      assertThat(tokenizer.encode("a\uD83Db\uDC00", true)).isEqualTo(replaced);
      assertThat(tokenizer.decode(tokenizer.encode("\uD83D\uDE00", false), false))
          .isEqualTo("\uD83D\uDE00");
      assertThat(tokenizer.decode(tokenizer.encode("a\u0000b", false), false)).isEqualTo("a\0b");
    }
  }

  @Test
  void encodesAHugeTextWithoutTruncation() {
    String text = "the heron waits ".repeat(100_000);
    MapFiles files = MapFiles.tokenizerFixture("byte-level-bpe");
    String limited =
        new String(files.content().get("tokenizer.json"), StandardCharsets.UTF_8)
            .replaceFirst(
                "\"truncation\":\\s*null",
                "\"truncation\":{\"direction\":\"Right\",\"max_length\":8,"
                    + "\"strategy\":\"LongestFirst\",\"stride\":0}");
    assertThat(limited).contains("max_length");
    try (Tokenizer tokenizer = open(files.with("tokenizer.json", limited))) {
      assertThat(tokenizer.decode(tokenizer.encode(text, true), true)).isEqualTo(text);
    }
  }

  @Test
  void namesADamagedOrMissingFile() {
    MapFiles files = MapFiles.tokenizerFixture("byte-level-bpe");
    assertThatThrownBy(() -> open(MapFiles.of()))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("tokenizer.json is missing");
    for (String damaged :
        List.of(
            "",
            "[]",
            "{",
            "{\"model\":{\"vocab\":{\"a\":0}",
            "{\"model\":{\"vocab\":{\"a\":-1}}}")) {
      assertThatThrownBy(() -> open(files.with("tokenizer.json", damaged)))
          .as(damaged)
          .isInstanceOf(ModelLoadException.class)
          .hasMessageContaining("tokenizer.json");
    }
    assertThatThrownBy(() -> open(files.with("tokenizer.json", "{\"model\":{\"type\":\"None\"}}")))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("tokenizer.json can't be read as a Hugging Face tokenizer");
    assertThatThrownBy(() -> open(files.with("tokenizer_config.json", "{\"bos_token\": 7}")))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("bos_token = 7");
    assertThatThrownBy(() -> open(files.with("tokenizer_config.json", "nothing")))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("tokenizer_config.json");
  }

  @Test
  void putsAroundATextWhatTransformersPuts() {
    MapFiles files = MapFiles.tokenizerFixture("sentencepiece-bpe");
    String llama = "{\"tokenizer_class\":\"LlamaTokenizer\",\"bos_token\":{\"content\":\"<s>\"}";
    // 1 is <s>, 2 is </s>, 350 is "▁a", from tokenizer.json; its post-processor puts <s> first.
    assertThat(encodeA(files, llama + "}")).containsExactly(1, 350);
    assertThat(encodeA(files, llama + ",\"add_bos_token\":false}")).containsExactly(350);
    assertThat(encodeA(files, llama + ",\"eos_token\":\"</s>\",\"add_eos_token\":true}"))
        .containsExactly(1, 350, 2);
    String fast = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"bos_token\":\"<s>\"";
    assertThat(encodeA(files, fast + ",\"add_bos_token\":false}")).containsExactly(1, 350);
    assertThatThrownBy(() -> encodeA(files, llama + ",\"add_eos_token\":true}"))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("add_eos_token");
  }

  private static int[] encodeA(MapFiles files, String config) {
    try (Tokenizer tokenizer = open(files.with("tokenizer_config.json", config))) {
      return tokenizer.encode("a", true);
    }
  }

  @Test
  void severalThreadsEncodeWhileOthersDo() throws Exception {
    JsonNode cases = reference("metaspace-bpe").get("encode");
    ExecutorService pool = Executors.newFixedThreadPool(4);
    try (Tokenizer tokenizer = open(MapFiles.tokenizerFixture("metaspace-bpe"))) {
      List<Future<Void>> results = new ArrayList<>();
      Callable<Void> work =
          () -> {
            for (int round = 0; round < 50; round++) {
              for (JsonNode entry : cases) {
                assertThat(tokenizer.encode(entry.get("text").textValue(), true))
                    .isEqualTo(ids(entry.get("ids")));
              }
            }
            return null;
          };
      for (int i = 0; i < 4; i++) {
        results.add(pool.submit(work));
      }
      for (Future<Void> result : results) {
        result.get();
      }
    } finally {
      pool.shutdownNow();
    }
  }

  @Test
  void closesTwiceAndRefusesWorkAfterwards() {
    Tokenizer tokenizer = open(MapFiles.tokenizerFixture("byte-level-bpe"));
    tokenizer.close();
    tokenizer.close();
    assertThatThrownBy(() -> tokenizer.decode(new int[] {64}, false))
        .isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> tokenizer.encode("a", false))
        .isInstanceOf(IllegalStateException.class);
  }

  @Test
  void namesANegativeId() {
    try (Tokenizer tokenizer = open(MapFiles.tokenizerFixture("byte-level-bpe"))) {
      assertThatThrownBy(() -> tokenizer.decode(new int[] {64, -3}, false))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("ids[1]")
          .hasMessageContaining("-3");
    }
  }

  /** DJL's own loader would unpack into its cache and look for GPUs. */
  @Test
  void loadsTheLibraryFromTheJarAlone() throws Exception {
    assertThat(System.getProperty("ai.djl.offline")).isNull();
    open(MapFiles.tokenizerFixture("byte-level-bpe")).close();
    assertThat(System.getProperty("ai.djl.offline")).isNull();
    String own = "halcyon-tokenizers-" + ProcessHandle.current().pid();
    try (Stream<Path> left = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
      assertThat(left.filter(path -> path.getFileName().toString().startsWith(own)))
          .allMatch(path -> System.getProperty("os.name").startsWith("Win"));
    }
  }

  /** The bytes of a text's tokens, joined, are the text's, whatever tokens share a character. */
  @ParameterizedTest
  @ValueSource(strings = {"sentencepiece-bpe", "byte-level-bpe", "split-byte-level-bpe"})
  void aTextsTokensHaveItsBytes(String kind) {
    String text = "a fox \uD83E\uDD8A and caf\u00E9, \u6F22\u5B57 \u00F1 end";
    try (Tokenizer tokenizer = open(MapFiles.tokenizerFixture(kind))) {
      java.io.ByteArrayOutputStream joined = new java.io.ByteArrayOutputStream();
      boolean parts = false;
      for (int id : tokenizer.encode(text, false)) {
        byte[] bytes = tokenizer.tokenBytes(id);
        joined.writeBytes(bytes);
        parts |= new String(bytes, StandardCharsets.UTF_8).contains("\uFFFD");
      }
      assertThat(parts).as("some token is part of a character").isTrue();
      assertThat(joined.toString(StandardCharsets.UTF_8).stripLeading()).isEqualTo(text);
      assertThat(tokenizer.tokenBytes(Integer.MAX_VALUE)).isEmpty();
    }
  }
}
