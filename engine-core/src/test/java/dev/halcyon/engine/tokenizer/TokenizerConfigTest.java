package dev.halcyon.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.ModelLoadException;
import org.junit.jupiter.api.Test;

class TokenizerConfigTest {

  private static TokenizerConfig read(String... namesAndTexts) {
    return TokenizerConfig.read(MapFiles.of(namesAndTexts));
  }

  @Test
  void readsTokensAsTextOrObject() {
    TokenizerConfig config =
        read(
            "tokenizer_config.json",
            "{\"bos_token\": null, \"eos_token\": {\"content\": \"</s>\"}}");
    assertThat(config.bosToken()).isEmpty();
    assertThat(config.eosToken()).hasValue("</s>");
    assertThat(
            read(
                    "tokenizer_config.json",
                    "{}",
                    "special_tokens_map.json",
                    "{\"bos_token\": \"<s>\"}")
                .bosToken())
        .hasValue("<s>");
  }

  @Test
  void takesTheUnlimitedLengthForNone() {
    assertThat(
            read("tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656}")
                .modelMaxLength())
        .isEmpty();
    assertThat(read("tokenizer_config.json", "{\"model_max_length\": 1e30}").modelMaxLength())
        .isEmpty();
    assertThat(read("tokenizer_config.json", "{\"model_max_length\": 1024}").modelMaxLength())
        .hasValue(1024);
    assertThat(read().modelMaxLength()).isEmpty();
  }

  @Test
  void findsTheChatTemplateWhereverItIs() {
    String text = "{\"chat_template\": \"one\"}";
    String list =
        "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"two\"},"
            + " {\"name\": \"default\", \"template\": \"three\"}]}";
    assertThat(read("tokenizer_config.json", text).chatTemplate()).hasValue("one");
    assertThat(read("tokenizer_config.json", list).chatTemplate()).hasValue("three");
    assertThat(read("tokenizer_config.json", text, "chat_template.jinja", "four").chatTemplate())
        .hasValue("four");
    assertThat(read("chat_template.json", text).chatTemplate()).hasValue("one");
    assertThat(read("tokenizer_config.json", "{}").chatTemplate()).isEmpty();
  }

  @Test
  void namesAValueOfTheWrongType() {
    assertThatThrownBy(() -> read("tokenizer_config.json", "{\"chat_template\": 3}"))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("chat_template = 3");
    assertThatThrownBy(() -> read("tokenizer_config.json", "{\"add_bos_token\": \"yes\"}"))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("add_bos_token");
  }
}
