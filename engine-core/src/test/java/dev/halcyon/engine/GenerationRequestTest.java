package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class GenerationRequestTest {

  /** The accessors, of which a prompt fills in one of the first three. */
  private static final List<String> PROMPTS = List.of("prompt", "promptIds", "messages");

  /** A request with no value that is a default. */
  private static GenerationRequest.Builder filled(GenerationRequest.Builder builder) {
    return builder
        .params(SamplingParams.builder().promptLogprobs(0).returnContextLogits(true).build())
        .cacheSalt("tenant")
        .priority(-3)
        .timeout(Duration.ofSeconds(7))
        .prefixReuse(PrefixReuse.REQUIRED)
        .disaggParams(DisaggParams.contextOnly("r"))
        .firstTokens(new CompletableFuture<>());
  }

  /** Whatever can be read of a request: a field added later is among it. */
  private static List<Method> accessors() {
    List<Method> accessors = new ArrayList<>();
    for (Method method : GenerationRequest.class.getDeclaredMethods()) {
      if (Modifier.isPublic(method.getModifiers())
          && !Modifier.isStatic(method.getModifiers())
          && method.getParameterCount() == 0
          && method.getReturnType() != GenerationRequest.Builder.class) {
        accessors.add(method);
      }
    }
    assertThat(accessors).extracting(Method::getName).containsAll(PROMPTS).contains("prefixReuse");
    return accessors;
  }

  @Test
  void copiesKeepEveryField() throws ReflectiveOperationException {
    List<GenerationRequest> requests =
        List.of(
            filled(GenerationRequest.builder("once")).build(),
            filled(GenerationRequest.builder(new int[] {3, 1, 2})).build(),
            filled(GenerationRequest.builder(List.of(ChatMessage.user("hello")))).build());
    GenerationRequest defaults = GenerationRequest.builder("upon").build();
    for (Method accessor : accessors()) {
      boolean isPrompt = PROMPTS.contains(accessor.getName());
      int filled = 0;
      for (GenerationRequest request : requests) {
        Object value = accessor.invoke(request);
        assertThat(accessor.invoke(request.toBuilder().build()))
            .as("%s of a copy", accessor.getName())
            .isEqualTo(value);
        filled += value != null && !value.equals(accessor.invoke(defaults)) ? 1 : 0;
      }
      assertThat(filled)
          .as("requests with a value of %s that is no default", accessor.getName())
          .isEqualTo(isPrompt ? 1 : requests.size());
    }
  }

  @Test
  void defaultsTravelThroughCopiesToo() {
    GenerationRequest copy = GenerationRequest.builder("once").build().toBuilder().build();
    assertThat(copy.prefixReuse()).isEqualTo(PrefixReuse.AUTO);
    assertThat(copy.cacheSalt()).isNull();
    assertThat(copy.timeout()).isNull();
    assertThat(copy.priority()).isZero();
    assertThat(copy.promptIds()).isNull();
    assertThat(copy.messages()).isNull();
    assertThat(copy.params()).isEqualTo(SamplingParams.builder().build());
    GenerationRequest cleared =
        filled(GenerationRequest.builder("once")).build().toBuilder()
            .cacheSalt(null)
            .timeout(null)
            .prefixReuse(PrefixReuse.AUTO)
            .build();
    assertThat(cleared.cacheSalt()).isNull();
    assertThat(cleared.timeout()).isNull();
    assertThat(cleared.prefixReuse()).isEqualTo(PrefixReuse.AUTO);
    assertThat(cleared.priority()).isEqualTo(-3);
  }

  @Test
  void aCopyDoesNotShareWhatCanChange() {
    int[] ids = {1, 2, 3};
    GenerationRequest request = GenerationRequest.builder(ids).build();
    GenerationRequest copy = request.toBuilder().build();
    ids[0] = 9;
    request.promptIds()[1] = 9;
    assertThat(copy.promptIds()).containsExactly(1, 2, 3);
    GenerationRequest.Builder builder = request.toBuilder().priority(4);
    assertThat(builder.build().priority()).isEqualTo(4);
    assertThat(request.priority()).isZero();
  }

  @Test
  void prefixReuseIsNeverNull() {
    assertThatThrownBy(() -> GenerationRequest.builder("once").prefixReuse(null))
        .isInstanceOf(NullPointerException.class)
        .hasMessageContaining("prefixReuse");
  }
}
