package dev.halcyon.engine.cuda;

import dev.halcyon.engine.ContextLogitsReferenceTest;
import dev.halcyon.engine.DefaultModelTest;
import dev.halcyon.engine.GenerationSemanticsTest;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.model.FamilyReferenceTest;
import dev.halcyon.engine.model.Fixture;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.provider.Arguments;

/** Models give on a GPU, in float32, what they give on the CPU: the values of transformers. */
@Tag("gpu")
class CudaModelTest {

  @Nested
  class Families extends FamilyReferenceTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }

    /** Whole, and in chunks that end inside a block. */
    @Override
    protected int[] chunks() {
      return new int[] {512, 7};
    }
  }

  @Nested
  class ContextLogits extends ContextLogitsReferenceTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }

    /** Every family, and every size of a step, in turn: all of both take the CPU's time. */
    @Override
    protected Stream<Arguments> settings() {
      List<Integer> tokens = List.of(1, 7, 32, 33, 64, 1024);
      return IntStream.range(0, Fixture.NAMES.size())
          .mapToObj(i -> Arguments.of(Fixture.NAMES.get(i), tokens.get(i % tokens.size())));
    }
  }

  @Nested
  class DefaultModel extends DefaultModelTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }

  @Nested
  class Semantics extends GenerationSemanticsTest {

    @Override
    protected TestBackend backend() {
      return TestBackends.CUDA;
    }
  }
}
