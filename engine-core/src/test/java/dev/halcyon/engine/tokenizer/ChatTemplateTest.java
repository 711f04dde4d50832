package dev.halcyon.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.halcyon.engine.ChatMessage;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.ModelLoadException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ChatTemplateTest {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final List<ChatMessage> HELLO = List.of(ChatMessage.user("Hello"));

  private static ChatTemplate template(String text) {
    Clock clock = Clock.fixed(Instant.parse("2024-07-26T10:20:30Z"), ZoneOffset.UTC);
    return new ChatTemplate(text, "<s>", "</s>", clock);
  }

  private static String render(String text) {
    return template(text).render(HELLO, true);
  }

  @TestFactory
  Stream<DynamicTest> rendersAsTransformersDoes() throws Exception {
    JsonNode cases = JSON.readTree(MapFiles.text("/fixtures/chat/cases.json"));
    return StreamSupport.stream(cases.spliterator(), false)
        .map(entry -> DynamicTest.dynamicTest(entry.get("name").textValue(), () -> check(entry)));
  }

  private static void check(JsonNode entry) {
    ChatTemplate template =
        new ChatTemplate(
            entry.get("template").textValue(),
            entry.get("bos_token").textValue(),
            entry.get("eos_token").textValue(),
            Clock.systemUTC());
    List<Map<String, Object>> messages =
        JSON.convertValue(entry.get("messages"), new TypeReference<>() {});
    Map<String, Object> variables =
        entry.has("variables")
            ? JSON.convertValue(entry.get("variables"), new TypeReference<>() {})
            : Map.of();
    boolean open = entry.get("add_generation_prompt").booleanValue();
    if (entry.get("expected").isNull()) {
      assertThatThrownBy(() -> template.render(messages, open, variables))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(entry.get("expected_error").textValue());
    } else {
      assertThat(template.render(messages, open, variables))
          .isEqualTo(entry.get("expected").textValue());
    }
  }

  @Test
  void seesMessagesAndSpecialTokens() {
    assertThat(
            template(
                    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m['content'] }}{% endfor %}")
                .render(List.of(ChatMessage.system("a"), ChatMessage.user("b")), false))
        .isEqualTo("<s>system: auser: b");
  }

  @Test
  void knowsTheDate() {
    assertThat(render("{{ strftime_now('%d %b %Y') }}")).isEqualTo("26 Jul 2024");
  }

  /** Worked out by hand by Python's rules. */
  @Test
  void computesAsPythonDoes() {
    assertThat(render("{{ not messages[0].content is string }}")).isEqualTo("False");
    assertThat(render("{{ 1 if false }}|{{ 'b' if 0 else [1, 2][-1] }}")).isEqualTo("|2");
    assertThat(render("{% set i = 3 %}{{ i+1 }} {{ i-1 }} {{ 2 ** 3 }} {{ -7 // 2 }} {{ -7 % 3 }}"))
        .isEqualTo("4 2 8 -4 2");
    assertThat(render("{{ ({'a': 1, 'b': 2}).b }} {{ ('x',) }} {{ [[], {}, ()] }}"))
        .isEqualTo("2 ('x',) [[], {}, ()]");
    assertThat(render("{{ '😀bc'[1:] }} {{ '😀' | length }} {{ 'abc'[::-1] }}"))
        .isEqualTo("bc 1 cba");
    assertThat(render("{{ 1e20 }} {{ 0.5 }} {{ 1 / 4 }}")).isEqualTo("1e+20 0.5 0.25");
    assertThat(render("{% set eq = 'div' %}{{ eq }}")).isEqualTo("div");
    assertThat(render("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}"))
        .isEqualTo("1");
    assertThat(
            render(
                "{% for i in [1, 2, 3] if i != 2 %}{{ i }}{{ ',' if not loop.last }}{% endfor %}"))
        .isEqualTo("1,3");
    assertThat(
            render(
                "{% for i in range(9) %}a{% if i == 1 %}b{% continue %}{% endif %}c{% if i == 2 %}"
                    + "{% break %}{% endif %}{% endfor %}"))
        .isEqualTo("acabac");
    assertThat(render("{{ [3, 1, 2] | sort | join('-') }} {{ ['b', 'A'] | sort }}"))
        .isEqualTo("1-2-3 ['A', 'b']");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{% if true %}",
        "{% endif %}",
        "{{ 'a ",
        "{{ 1 + }}",
        "{% for in x %}{% endfor %}",
        "{% for x %}{% endfor %}",
        "{% unknown %}",
        "{{ x | unknown }}",
        "{{ x is unknown }}",
        "{# comment",
        "{% include 'file' %}",
        "{% import 'file' as f %}",
        "{% extends 'file' %}",
        "{% do x %}",
        "{% if %}{% endif %}",
        "{{ messages[ }}"
      })
  void refusesAMalformedTemplateWhenItIsLoaded(String text) {
    assertThatThrownBy(() -> template(text))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining("chat template");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{{ ''.getClass() }}",
        "{{ messages.getClass().forName('java.lang.Runtime') }}",
        "{{ messages[0].clear() }}",
        "{{ messages.append(1) }}",
        "{{ ____int3rpr3t3r____.getContext() }}",
        "{{ ''.format(1) }}",
        "{{ undefined_name.field }}",
        "{{ 'a' + 1 }}",
        "{{ nothing() }}",
        "{{ 1 // 0 }}"
      })
  void aTemplateReachesNoJavaAndFailsWithATypedError(String text) {
    assertThatThrownBy(() -> render(text))
        .isInstanceOf(EngineException.class)
        .hasMessageStartingWith("The chat template failed");
  }

  @Test
  void noPropertyOfAJavaObjectIsVisible() {
    assertThat(render("{{ ''.class }}{{ messages.class }}{{ true.class }}{{ loop }}{{ self }}"))
        .isEmpty();
    assertThat(render("{{ ____int3rpr3t3r____ }}{{ request }}{{ context }}")).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% set n = namespace(s='x') %}{% for a in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(l=[1]) %}{% for a in range(99) %}{% set n.l = n.l + n.l %}{% endfor %}",
        "{% set n = namespace(l=[1]) %}{% for a in range(99) %}{% set n.l = [n.l, n.l] %}{% endfor %}"
            + "{{ n.l }}",
        "{% set n = namespace(l=[1]) %}{% for a in range(99) %}{% set n.l = [n.l, n.l] %}{% endfor %}"
            + "{{ n.l | tojson }}",
        "{% set n = namespace(l=[1], m=[1]) %}{% for a in range(99) %}{% set n.l = [n.l, n.l] %}"
            + "{% set n.m = [n.m, n.m] %}{% endfor %}{{ n.l == n.m }}",
        "{{ 'x' * 9999999999 }}",
        "{{ range(999999999) }}",
        "{% set x = 'x' * 4000000 %}{{ x.replace('', x) }}",
        "{% set x = 'x' * 4000000 %}{% set n = namespace(l=[]) %}{% for a in range(9999) %}"
            + "{% set n.l = n.l + [x ~ a] %}{% endfor %}",
        "{% set x = 'x' * 4000000 %}{{ x }}{{ x }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}"
      })
  void aHostileTemplateIsStopped(String text) {
    // Processor time: other work on the machine doesn't count.
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long start = threads.getCurrentThreadCpuTime();
    assertThatThrownBy(() -> render(text)).isInstanceOf(EngineException.class);
    assertThat(threads.getCurrentThreadCpuTime() - start).isLessThan(10_000_000_000L);
  }

  @Test
  void aDeeplyNestedExpressionIsRefused() {
    String text = "{{ " + "(".repeat(100_000) + "1" + ")".repeat(100_000) + " }}";
    assertThatThrownBy(() -> template(text)).isInstanceOf(ModelLoadException.class);
  }

  @Test
  void severalThreadsRenderOneTemplate() {
    ChatTemplate template =
        template("{% for m in messages %}{% set x = m.content %}{{ x | upper }}{% endfor %}");
    List<String> texts =
        IntStream.range(0, 400)
            .parallel()
            .mapToObj(i -> template.render(List.of(ChatMessage.user("a" + i)), false))
            .toList();
    for (int i = 0; i < texts.size(); i++) {
      assertThat(texts.get(i)).isEqualTo("A" + i);
    }
  }
}
