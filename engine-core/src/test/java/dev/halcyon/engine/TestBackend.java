package dev.halcyon.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendProvider;
import java.nio.FloatBuffer;
import java.util.Locale;
import java.util.ServiceLoader;

/**
 * What a test computes on, with activations of float32. Tests of engine-core run on the CPU; those
 * that another backend has to pass as well leave the choice to a method that a subclass overrides.
 *
 * @param choice the backend
 * @param rounding how far a row's values may move with what else is in the batch, as part of its
 *     largest one; 0 where a row is computed in the same way whatever runs beside it
 */
public record TestBackend(BackendChoice choice, double rounding) {

  public static final TestBackend CPU = new TestBackend(BackendChoice.CPU, 0);

  /** A builder of engines on this backend, all of which round alike. */
  public EngineBuilder engine() {
    return Engine.builder().backend(choice).dtype(DTypeChoice.F32).deterministic(true);
  }

  /** The options that a builder has come to, without opening an engine. */
  public static EngineOptions options(EngineBuilder builder) {
    return builder.options();
  }

  /** The provider of this backend among those on the class path. */
  public BackendProvider provider() {
    String name = choice.name().toLowerCase(Locale.ROOT);
    return ServiceLoader.load(BackendProvider.class).stream()
        .map(ServiceLoader.Provider::get)
        .filter(provider -> provider.name().equals(name))
        .findFirst()
        .orElseThrow();
  }

  /** Opens this backend with a budget of device memory. */
  public Backend open(long memoryBytes) {
    return provider().open(new BackendOptions(2, memoryBytes, 0, 0));
  }

  /** Requires rows of equal meaning to be equal, but for rounding. */
  public void assertSameRows(LogitsView got, LogitsView expected) {
    assertThat(got.rows()).isEqualTo(expected.rows());
    for (int row = 0; row < got.rows(); row++) {
      FloatBuffer expectedRow = expected.row(row);
      FloatBuffer gotRow = got.row(row);
      if (rounding == 0) {
        assertThat(gotRow).as("row %d", row).isEqualTo(expectedRow);
        continue;
      }
      float bound = 0;
      float difference = 0;
      for (int i = 0; i < expected.vocabSize(); i++) {
        bound = Math.max(bound, Math.abs(expectedRow.get(i)));
        difference = Math.max(difference, Math.abs(gotRow.get(i) - expectedRow.get(i)));
      }
      assertThat((double) difference).as("row %d", row).isLessThanOrEqualTo(rounding * bound);
    }
  }
}
