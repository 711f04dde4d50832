package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Conversations through a checkpoint's own template. */
class EngineChatTest {

  private static final SamplingParams GREEDY =
      SamplingParams.builder().temperature(0f).maxTokens(6).ignoreEos(true).build();

  @TempDir Path directory;

  private Path checkpoint(String template) throws IOException {
    Path checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
    Files.writeString(checkpoint.resolve("chat_template.jinja"), template);
    return checkpoint;
  }

  @Test
  void aConversationIsTheTextThatItsTemplateGives() throws IOException {
    Path checkpoint =
        checkpoint(
            "{% for message in messages %}<|im_start|>{{ message.role }}: {{ message.content }}"
                + "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}");
    List<ChatMessage> messages =
        List.of(ChatMessage.system("be kind"), ChatMessage.user("hello there"));
    try (Engine engine = Engine.builder().model(checkpoint).build()) {
      assertThat(engine.renderChat(messages))
          .isEqualTo(
              "<|im_start|>system: be kind<|im_end|><|im_start|>user: hello there<|im_end|>"
                  + "<|im_start|>assistant:");
      GenerationResult chat = engine.chat(messages, GREEDY);
      // The template writes the special tokens itself: none are added around it.
      int[] withSpecial = engine.tokenize(engine.renderChat(messages));
      assertThat(chat.promptIds()).hasSize(withSpecial.length - 1);
      assertThat(chat.promptIds().get(0)).isEqualTo(withSpecial[1]);
      GenerationResult same =
          engine.generate(
              GenerationRequest.of(
                  chat.promptIds().stream().mapToInt(Integer::intValue).toArray(), GREEDY));
      assertThat(same.outputs().get(0).tokenIds()).isEqualTo(chat.outputs().get(0).tokenIds());
    }
  }

  @Test
  void aTemplateMayRefuseAndTheEngineGoesOn() throws IOException {
    Path checkpoint =
        checkpoint(
            "{% if messages[0].role != 'user' %}{{ raise_exception('a user begins') }}{% endif %}x");
    try (Engine engine = Engine.builder().model(checkpoint).build()) {
      assertThatThrownBy(() -> engine.chat(List.of(ChatMessage.system("a")), GREEDY))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("a user begins");
      assertThat(engine.chat(List.of(ChatMessage.user("a")), GREEDY).outputs()).hasSize(1);
    }
  }

  @Test
  void aMalformedTemplateIsRefusedWhenOpening() throws IOException {
    Path checkpoint = checkpoint("{% for message in messages %}{{ message.content }}");
    assertThatThrownBy(() -> Engine.builder().model(checkpoint).build())
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("template");
  }
}
