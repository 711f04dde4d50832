package dev.halcyon.engine.logits;

import java.util.function.DoubleUnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Every row is where its position says, whatever the chunks, the type and the room there is. */
class RowMappingTest {

  private static final int VOCAB = 97;
  private static final int[] LENGTHS = {1, 32, 33, 65, 91};

  @FunctionalInterface
  private interface Case {
    void run(Rig rig, Prompt prompt, Request request);
  }

  private static void forEachLength(LogitsType type, int chunk, Case each) {
    for (int length : LENGTHS) {
      try (Rig rig = Rig.of(type, VOCAB)) {
        Prompt prompt = rig.prompt(length * 1000L + chunk, length);
        try (Request request = new Request(rig, prompt, chunk)) {
          each.run(rig, prompt, request);
        }
      }
    }
  }

  private static void allTargets(Request request) {
    request.runAndCheck(true, Request.NO_LOGPROBS);
    for (int k : new int[] {0, 1, 5}) {
      request.runAndCheck(false, k);
      request.runAndCheck(true, k);
    }
    request.runAndCheck(false, Request.NO_LOGPROBS);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 7, 32, 33, 64, 1000})
  void withRoomForEverything(int chunk) {
    for (LogitsType type : LogitsType.values()) {
      forEachLength(type, chunk, (rig, prompt, request) -> allTargets(request));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 7, 32, 33, 64, 1000})
  void withNothingButTheResidentRows(int chunk) {
    for (LogitsType type : LogitsType.values()) {
      forEachLength(
          type,
          chunk,
          (rig, prompt, request) -> {
            rig.device.memory.account.refuse();
            allTargets(request);
          });
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 7, 33, 1000})
  void inSegmentsOfFewRows(int chunk) {
    for (LogitsType type : LogitsType.values()) {
      for (boolean onHost : new boolean[] {false, true}) {
        forEachLength(
            type,
            chunk,
            (rig, prompt, request) -> {
              // Five rows and a bit: segment borders fall anywhere in a chunk.
              long segment = 5L * VOCAB * Float.BYTES + 17;
              rig.device.host.maxBufferBytes(segment);
              rig.device.memory.maxBufferBytes(onHost ? 100 : segment);
              request.runAndCheck(true, 2);
              request.runAndCheck(true, Request.NO_LOGPROBS);
            });
      }
    }
  }

  @ParameterizedTest
  @EnumSource(LogitsType.class)
  void theHeadsTransformIsAppliedOnceToEveryRow(LogitsType type) {
    DoubleUnaryOperator scale = x -> x * 0.0625;
    DoubleUnaryOperator softcap = x -> 30 * Math.tanh(x / 30);
    for (DoubleUnaryOperator transform : new DoubleUnaryOperator[] {scale, softcap}) {
      try (Rig rig = Rig.of(device -> FakeHead.whole(device, type, VOCAB, transform))) {
        Prompt prompt = new Prompt(9, 70, VOCAB, type, transform);
        try (Request request = new Request(rig, prompt, 38)) {
          allTargets(request);
          request.runAndCheck(true, 3, i -> new BatchDescription(true, false, false, false));
        }
      }
    }
  }

  @Test
  void requestsInTurnDoNotMixTheirRows() {
    try (Rig rig = Rig.of(LogitsType.BF16, VOCAB);
        Request one = new Request(rig, rig.prompt(1, 70), 70);
        Request other = new Request(rig, rig.prompt(2, 45), 45);
        ContextLogits first = one.open(true, 2);
        ContextLogits second = other.open(false, 2)) {
      one.project(first, i -> BatchDescription.PLAIN);
      other.project(second, i -> BatchDescription.PLAIN);
      one.check(first, true, 2);
      other.check(second, false, 2);
    }
  }
}
