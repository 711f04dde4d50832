package dev.halcyon.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.FieldSource;

class RopeScalingTest {

  static final List<String> FIXTURES = Fixture.NAMES;

  @ParameterizedTest
  @FieldSource("FIXTURES")
  void frequenciesAreThoseOfTransformers(String name) {
    Fixture fixture = Fixture.open(name);
    for (LayerConfig layer : fixture.config("config.json").layers()) {
      RopeConfig rope = layer.rope();
      if (rope == null) {
        continue;
      }
      JsonNode inverse = ofLayer(fixture.reference().get("inv_freq"), layer);
      float[] frequencies = rope.scaling().frequencies(rope.theta(), rope.rotaryDim(), 0);

      assertThat(frequencies).hasSize(inverse.size());
      for (int i = 0; i < frequencies.length; i++) {
        float expected = inverse.get(i).floatValue();
        // Two units in the last place, for the power functions of two libraries.
        assertThat(frequencies[i]).isCloseTo(expected, within(2 * Math.ulp(expected)));
      }
      assertThat(rope.scaling().attentionScaling())
          .isCloseTo(
              ofLayer(fixture.reference().get("attention_scaling"), layer).doubleValue(),
              within(1e-12));
    }
  }

  /** A reference's value, or the one of the layer's kind where kinds differ. */
  private static JsonNode ofLayer(JsonNode values, LayerConfig layer) {
    String kind = layer.slidingWindow() > 0 ? "sliding_attention" : "full_attention";
    return values.isObject() ? values.get(kind) : values;
  }

  @Test
  void dynamicBaseGrowsBeyondTheOriginalLength() {
    RopeScaling dynamic = new RopeScaling.Dynamic(4, 32);
    float[] plain = dynamic.frequencies(500, 16, 32);
    float[] twice = dynamic.frequencies(500, 16, 64);

    assertThat(plain).isEqualTo(RopeScaling.plainFrequencies(500, 16));
    // At twice the length the stretch is 4 * 64 / 32 - 3 = 5: the base is 500 * 5^(16/14) = 3146.3.
    double base = 500 * Math.pow(5, 16 / 14.0);
    assertThat(base).isCloseTo(3146.3, within(0.1));
    for (int i = 0; i < twice.length; i++) {
      double expected = Math.pow(base, -2.0 * i / 16);
      assertThat((double) twice[i]).isCloseTo(expected, within(2e-6 * expected));
    }
    assertThat(dynamic.contextLength()).isEqualTo(128);
  }

  @Test
  void yarnWithoutTruncationKeepsTheRampsFractions() {
    // A pair turns 8 / (2 pi theta^(2i/16)) ... times over 32 positions; ends of the ramp by the
    // paper's
    // formula: 16 * ln(32 / (turns * 2 pi)) / (2 ln 500).
    double low = 16 * Math.log(32 / (2 * 2 * Math.PI)) / (2 * Math.log(500));
    double high = 16 * Math.log(32 / (0.5 * 2 * Math.PI)) / (2 * Math.log(500));
    RopeScaling yarn = new RopeScaling.Yarn(4, 32, 1, 2, 0.5, false);

    float[] frequencies = yarn.frequencies(500, 16, 0);

    for (int i = 0; i < frequencies.length; i++) {
      double keep = 1 - Math.min(1, Math.max(0, (i - low) / (high - low)));
      double plain = Math.pow(500, -2.0 * i / 16);
      double expected = plain / 4 * (1 - keep) + plain * keep;
      assertThat((double) frequencies[i]).isCloseTo(expected, within(2e-6 * expected));
    }
  }
}
