package dev.halcyon.engine.disagg.codec;

import static dev.halcyon.engine.disagg.codec.LogitsCodecTest.assertRefused;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.DisaggRequestType;
import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.TokenLogprobs.Entry;
import dev.halcyon.engine.Usage;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class DisaggParamsCodecTest {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int VOCAB = 7;
  private static final DisaggParamsCodec CODEC = new DisaggParamsCodec(VOCAB, 1 << 16, 1 << 20);

  @Test
  void everythingComesBack() {
    DisaggParams params = full();
    DisaggParams read = CODEC.fromJsonBytes(CODEC.toJsonBytes(params), "d");
    assertThat(read.requestType()).isEqualTo(DisaggRequestType.GENERATION_ONLY);
    assertThat(read.requestId()).isEqualTo("request-1");
    assertThat(read.scheduleStyle()).isEqualTo(ScheduleStyle.GENERATION_FIRST);
    assertThat(read.seed()).isEqualTo(Long.MIN_VALUE);
    assertThat(read.firstGenTokens()).containsExactly(3, 5);
    assertThat(read.firstGenLogprobs()).isEqualTo(params.firstGenLogprobs());
    assertThat(keys(read.firstGenLogprobs().get(0))).containsExactly(6, 3);
    assertThat(read.promptLogprobs()).isEqualTo(params.promptLogprobs());
    assertThat(read.kvDescriptor()).isEqualTo(params.kvDescriptor());
    assertThat(read.usage()).isEqualTo(new Usage(2, 1, 2));
    assertThat(LogitsTensor.of(read.firstGenLogits().get(1)))
        .isEqualTo(LogitsTensor.of(params.firstGenLogits().get(1)));
    assertThat(LogitsTensor.of(read.contextLogits()))
        .isEqualTo(LogitsTensor.of(params.contextLogits()));
  }

  @Test
  void whatIsNullIsLeftOut() {
    DisaggParams params = DisaggParams.contextOnly("a");
    assertThat(CODEC.toJson(params).toString())
        .isEqualTo(
            "{\"request_type\":\"context_only\",\"request_id\":\"a\","
                + "\"schedule_style\":\"context_first\"}");
    DisaggParams read = CODEC.fromJson(CODEC.toJson(params), "d");
    assertThat(read.requestType()).isEqualTo(DisaggRequestType.CONTEXT_ONLY);
    assertThat(read.firstGenTokens()).isEmpty();
    assertThat(read.firstGenLogits()).isNull();
    assertThat(read.kvDescriptor()).isNull();
    assertThat(read.usage()).isNull();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "request_type|\"prefill\"|d.request_type",
        "request_type|1|d.request_type",
        "request_id|\"\"|d",
        "request_id|\"a b\"|d",
        "schedule_style|\"now\"|d.schedule_style",
        "seed|5|d.seed",
        "seed|\"9223372036854775808\"|d.seed",
        "first_gen_tokens|[]|d.first_gen_tokens",
        "first_gen_tokens|[3,7]|d.first_gen_tokens[1]",
        "first_gen_tokens|[3,-1]|d.first_gen_tokens[1]",
        "first_gen_tokens|[3,1.5]|d.first_gen_tokens[1]",
        "first_gen_tokens|[3]|d",
        "first_gen_tokens|[3,4]|d",
        "first_gen_logprobs|{}|d.first_gen_logprobs",
        "first_gen_logprobs|[{\"token_id\":3}]|d.first_gen_logprobs[0].entries",
        "first_gen_logprobs|[{\"token_id\":3,\"entries\":[[2,0,1]]}]|d.first_gen_logprobs[0].entries",
        "first_gen_logprobs|[{\"token_id\":3,\"entries\":[[3,0]]}]|d.first_gen_logprobs[0].entries[0]",
        "first_gen_logprobs|[{\"token_id\":3,\"entries\":[[3,1e300,1]]}]|d.first_gen_logprobs[0].entries[0]",
        "first_gen_logprobs|[{\"token_id\":3,\"entries\":[[3,0,1],[3,0,1]]}]|d.first_gen_logprobs[0].entries[1]",
        "first_gen_logits|[]|d.first_gen_logits",
        "first_gen_logits|[{\"data\":\"\"}]|d.first_gen_logits[0].dtype",
        "context_logits|[]|d.context_logits",
        "prompt_logprobs|5|d.prompt_logprobs",
        "kv_descriptor|\"\"|d.kv_descriptor",
        "kv_descriptor|\"?\"|d.kv_descriptor",
        "usage|{\"prompt_tokens\":0}|d.usage.prompt_tokens",
        "usage|{\"prompt_tokens\":1}|d.usage.cached_prompt_tokens",
        "usage|{\"prompt_tokens\":1,\"cached_prompt_tokens\":2}|d.usage.cached_prompt_tokens",
        "unknown|1|d.unknown"
      })
  void whatIsWrongIsNamed(String key, String value, String field) throws Exception {
    ObjectNode sound = CODEC.toJson(full());
    CODEC.fromJson(sound, "d");
    sound.set(key, JSON.readTree(value));
    assertRefused(() -> CODEC.fromJson(sound, "d"), field);
  }

  @Test
  void firstLogitsOfMoreThanOneRowAreRefused() {
    ObjectNode sound = CODEC.toJson(full());
    sound.putArray("first_gen_logits").add(sound.get("context_logits"));
    assertRefused(() -> CODEC.fromJson(sound, "d"), "d.first_gen_logits[0].shape");
  }

  @Property(tries = 10_000, shrinking = ShrinkingMode.OFF)
  void mutationsAreReadOrRefused(@ForAll long seed, @ForAll @IntRange(min = 1, max = 6) int edits) {
    Random random = new Random(seed);
    byte[] damaged = Mutations.of(CODEC.toJsonBytes(full()), edits, random);
    try {
      DisaggParams read = CODEC.fromJsonBytes(damaged, "d");
      CODEC.toJsonBytes(read);
    } catch (WireFormatException e) {
      assertThat(e.field()).startsWith("d");
    }
  }

  private static List<Integer> keys(TokenLogprobs logprobs) {
    return List.copyOf(logprobs.entries().keySet());
  }

  private static DisaggParams full() {
    Map<Integer, Entry> ordered = new LinkedHashMap<>();
    ordered.put(6, new Entry(-0.1f, 1));
    ordered.put(3, new Entry(Float.NEGATIVE_INFINITY, 5));
    // 1.4e-45 is the least float above 0; 0.1f and 16777217's neighbours have long decimals.
    Map<Integer, Entry> odd = new LinkedHashMap<>();
    odd.put(5, new Entry(-1.4e-45f, 1));
    odd.put(1, new Entry(-16777216f, 2));
    odd.put(2, new Entry(-3.4028235e38f, 3));
    odd.put(0, new Entry(Float.NaN, 4));
    return DisaggParams.builder(DisaggRequestType.GENERATION_ONLY, "request-1")
        .scheduleStyle(ScheduleStyle.GENERATION_FIRST)
        .seed(Long.MIN_VALUE)
        .firstGenTokens(List.of(3, 5))
        .firstGenLogprobs(List.of(new TokenLogprobs(3, ordered), new TokenLogprobs(5, odd)))
        .firstGenLogits(List.of(rows(1, 1), rows(1, 2)))
        .contextLogits(rows(2, 3))
        .promptLogprobs(
            List.of(
                new TokenLogprobs(1, Map.of(1, new Entry(-2f, 3))),
                new TokenLogprobs(3, Map.of(3, new Entry(-4.5f, 2)))))
        .kvDescriptor(new KvDescriptor(new byte[] {1, 2, 3}))
        .usage(new Usage(2, 1, 2))
        .build();
  }

  private static LogitsView rows(int rows, int seed) {
    byte[] data = new byte[rows * VOCAB * 4];
    new Random(seed).nextBytes(data);
    return LogitsTensor.of(WireType.FLOAT32, new int[] {rows, VOCAB}, data).view();
  }
}
