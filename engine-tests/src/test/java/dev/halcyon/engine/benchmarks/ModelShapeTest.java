package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import org.junit.jupiter.api.Test;

class ModelShapeTest {

  private static final ModelShape SHAPE = ModelShape.TINY_LLAMA_1B;

  /** Per layer: q and o of 2048 x 2048, k and v of 256 x 2048, three of 5632 x 2048. */
  private static final long LAYER = 2L * 2048 * 2048 + 2L * 256 * 2048 + 3L * 5632 * 2048;

  private static final long HEAD = 32000L * 2048;

  @Test
  void hasAsManyParametersAsTheModelCardOfTinyLlamaSays() {
    assertThat(SHAPE.tensors().stream().mapToLong(ModelShape.Tensor::elements).sum())
        .isEqualTo(1_100_048_384L);
  }

  @Test
  void aDecodeStepReadsTheLayersAndTheHeadButNotTheEmbeddingTable() {
    assertThat(SHAPE.decodeBytes()).isEqualTo(2 * (22 * LAYER + HEAD));
  }

  @Test
  void aPrefillTakesEveryTokenThroughTheLayersAndOneThroughTheHead() {
    assertThat(SHAPE.prefillOperations(512)).isEqualTo(2.0 * (512 * 22 * LAYER + HEAD));
  }

  @Test
  void refusesHeadsThatDoNotDivideTheHiddenSize() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> new ModelShape(100, 64, 1, 3, 1, 512))
        .withMessageContaining("heads must divide hidden");
  }

  @Test
  void refusesAVocabularyWithoutRoomForTheLetters() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> new ModelShape(64, 64, 1, 4, 2, 284))
        .withMessageContaining("at least 285");
  }
}
