package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.logits.HeadDescription.Sharding;
import dev.halcyon.engine.logits.HeadDescription.Weights;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

class EligibilityTest {

  private static final int VOCAB = 97;

  private static HeadDescription head(
      Weights weights,
      Sharding sharding,
      List<Integer> shards,
      boolean gathers,
      boolean lora,
      boolean locality) {
    return new HeadDescription(weights, sharding, shards, gathers, lora, locality);
  }

  private static HeadDescription ineligible(Eligibility reason) {
    List<Integer> one = List.of(VOCAB);
    return switch (reason) {
      case QUANTIZED_HEAD -> HeadDescription.whole(Weights.QUANTIZED, VOCAB);
      case LORA_HEAD -> head(Weights.BF16, Sharding.NONE, one, true, true, false);
      case LOCALITY_PARTITIONED -> head(Weights.BF16, Sharding.NONE, one, true, false, true);
      case ROW_SHARDED -> head(Weights.BF16, Sharding.ROW, List.of(48, 48), true, false, false);
      case UNEVEN_SHARDS ->
          head(Weights.BF16, Sharding.COLUMN, List.of(49, 48), true, false, false);
      case NOT_GATHERED ->
          head(Weights.BF16, Sharding.COLUMN, List.of(48, 48), false, false, false);
      default -> throw new IllegalArgumentException(reason.name());
    };
  }

  @ParameterizedTest
  @EnumSource(
      names = {
        "QUANTIZED_HEAD",
        "LORA_HEAD",
        "LOCALITY_PARTITIONED",
        "ROW_SHARDED",
        "UNEVEN_SHARDS",
        "NOT_GATHERED"
      })
  void headsThatCannotBeChunkedSayWhy(Eligibility reason) {
    Eligibility found = Eligibility.of(ineligible(reason), BatchDescription.PLAIN);
    assertThat(found).isEqualTo(reason);
    assertThat(found.eligible()).isFalse();
    assertThat(found.reason()).isNotBlank();
  }

  static Stream<Arguments> batches() {
    return Stream.of(
        Arguments.of(new BatchDescription(true, false, false, false), Eligibility.CONTEXT_PARALLEL),
        Arguments.of(
            new BatchDescription(false, true, false, false), Eligibility.ATTENTION_DATA_PARALLEL),
        Arguments.of(new BatchDescription(false, false, true, false), Eligibility.SPECULATIVE),
        Arguments.of(
            new BatchDescription(false, false, false, true), Eligibility.CONTEXT_LOGITS_PROCESSOR));
  }

  @ParameterizedTest
  @MethodSource("batches")
  void batchesThatCannotBeChunkedSayWhy(BatchDescription batch, Eligibility reason) {
    HeadDescription head = HeadDescription.whole(Weights.BF16, VOCAB);
    assertThat(Eligibility.of(head, batch)).isEqualTo(reason);
  }

  @ParameterizedTest
  @EnumSource(
      value = Weights.class,
      names = {"F32", "F16", "BF16"})
  void denseHeadsOnOneRankOrInEvenColumnsAreEligible(Weights weights) {
    HeadDescription columns = head(weights, Sharding.COLUMN, List.of(48, 48), true, false, false);
    assertThat(Eligibility.of(columns, BatchDescription.PLAIN)).isEqualTo(Eligibility.ELIGIBLE);
    assertThat(
            Eligibility.of(HeadDescription.whole(weights, VOCAB), BatchDescription.PLAIN)
                .eligible())
        .isTrue();
  }

  @Test
  void everyReasonIsReached() {
    Map<Eligibility, Boolean> reached = new EnumMap<>(Eligibility.class);
    batches().forEach(each -> reached.put((Eligibility) each.get()[1], true));
    for (Eligibility reason : Eligibility.values()) {
      if (reason != Eligibility.ELIGIBLE && !reached.containsKey(reason)) {
        assertThat(Eligibility.of(ineligible(reason), BatchDescription.PLAIN)).isEqualTo(reason);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void anIneligibleHeadReservesNothingAndGoesWholeWithTheSameValues(LogitsType type) {
    HeadDescription quantized = ineligible(Eligibility.QUANTIZED_HEAD);
    try (Rig rig = Rig.of(device -> FakeHead.whole(device, type, VOCAB).described(quantized))) {
      assertThat(rig.device.memory.account.requests()).isEmpty();
      Prompt prompt = rig.prompt(1, 91);
      try (Request request = new Request(rig, prompt, 91);
          DeviceBuffer hidden = prompt.upload(rig.device, type, 0, 32, 0, 0)) {
        rig.plan.warmUp(hidden, 32);
        assertThat(rig.device.log).as("warm-up of nothing").isEmpty();
        request.runAndCheck(true, 5);
        assertThat(rig.device.counts("project")).containsExactly(91);
        request.runAndCheck(false, 5);
        // The storage goes to the host.
        rig.device.memory.account.failCall(0);
        request.runAndCheck(true, Request.NO_LOGPROBS);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void anIneligibleBatchGoesWholeWithTheSameValues(LogitsType type) {
    BatchDescription speculative = new BatchDescription(false, false, true, false);
    try (Rig rig = Rig.of(type, VOCAB);
        Request request = new Request(rig, rig.prompt(2, 91), 91)) {
      request.runAndCheck(true, 5, i -> speculative);
      assertThat(rig.device.counts("project")).containsExactly(91);
      request.runAndCheck(true, Request.NO_LOGPROBS, i -> speculative);
      request.runAndCheck(false, 0, i -> speculative);
    }
  }

  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void aRequestMaySwitchPathBetweenChunks(LogitsType type) {
    BatchDescription processor = new BatchDescription(false, false, false, true);
    try (Rig rig = Rig.of(type, VOCAB);
        Request request = new Request(rig, rig.prompt(3, 91), 38)) {
      for (int parity = 0; parity < 2; parity++) {
        int odd = parity;
        request.runAndCheck(true, 5, i -> i % 2 == odd ? BatchDescription.PLAIN : processor);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void theWholePathFailsWithATypedErrorAndCanBeRepeated(LogitsType type) {
    BatchDescription speculative = new BatchDescription(false, false, true, false);
    try (Rig rig = Rig.of(type, VOCAB);
        Request request = new Request(rig, rig.prompt(4, 60), 60);
        ContextLogits target = request.open(true, 2)) {
      rig.device.memory.account.failCall(0);
      assertThatThrownBy(() -> request.project(target, i -> speculative))
          .isInstanceOf(OutOfDeviceMemoryException.class);
      assertThat(target.scored()).isZero();
      request.project(target, i -> speculative);
      request.check(target, true, 2);
    }
  }

  @Test
  void rowsOutOfOrderAreRefused() {
    try (Rig rig = Rig.of(LogitsType.F32, VOCAB);
        Request request = new Request(rig, rig.prompt(5, 10), 10);
        ContextLogits target = request.open(true, 0)) {
      assertThatThrownBy(() -> target.requireNext(1, 3)).isInstanceOf(IllegalStateException.class);
      assertThatThrownBy(() -> target.requireNext(0, 11)).isInstanceOf(IllegalStateException.class);
      assertThatThrownBy(target::takeFull).isInstanceOf(IllegalStateException.class);
      request.project(target, i -> BatchDescription.PLAIN);
      request.check(target, true, 0);
      assertThat(target.takeFull()).as("taken twice").isNull();
    }
  }
}
