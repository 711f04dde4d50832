package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.sampling.HostSampler;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.List;

/**
 * Sampling: each entry by the host's sampler, on its own copy of its row of logits, entries in
 * parallel.
 */
final class SampleOp {

  private final WorkerPool pool;
  private final Scratch[] scratch;
  private final HostSampler sampler = new HostSampler();

  SampleOp(WorkerPool pool, Scratch[] scratch) {
    this.pool = pool;
    this.scratch = scratch;
  }

  List<SampledToken> run(FloatBuffer logits, int vocabSize, List<SamplingRow> entries) {
    SampledToken[] tokens = new SampledToken[entries.size()];
    pool.run(
        tokens.length,
        (i, worker) -> {
          SamplingRow entry = entries.get(i);
          float[] row = scratch[worker].logits(vocabSize);
          logits.get(entry.row() * vocabSize, row);
          tokens[i] = sampler.sample(row, entry);
        });
    return Arrays.asList(tokens);
  }
}
