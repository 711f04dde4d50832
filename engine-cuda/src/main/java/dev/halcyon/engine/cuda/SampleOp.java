package dev.halcyon.engine.cuda;

import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.RankKeys;
import dev.halcyon.engine.sampling.HostSampler;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingRow;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Sampling on the device; kernels in sampling.cu. All entries of a step go through the same few
 * launches, and one small block of results comes back.
 *
 * <p>One pass over a row finds its highest logit and, in each group of 32 elements, the best one.
 * The best tokens of a row, up to 128, are then found in as many groups (see ranks.cuh); filters
 * that keep no more than that end there. Larger ones select the last token that they keep digit by
 * digit of its logit, by number or by probability (a radix select, see select.cuh), without
 * sorting. The token is then drawn by the race that the host's TokenDraw defines, which needs no
 * order and no normalised probabilities, with the same numbers for each token.
 *
 * <p>The device chooses as the host's sampler does but for rounding: topP adds probabilities up in
 * another order, and over large sets from exponentials of float32, so that a token whose cumulative
 * probability is within about 1e-6 of topP may fall on the other side. Ties are by the lower id
 * everywhere. Clocks of the race that are near the first one are compared in double precision, as
 * on the host. Logprobs differ by float32's rounding.
 *
 * <p>Entries with a logits processor, and those that can't be sampled, go through the host's
 * sampler one by one, so that a caller's code and all messages are the same.
 */
final class SampleOp implements AutoCloseable {

  private final Launch launch;
  private final Kernel copyAdjusted;
  private final Kernel adjust;
  private final Kernel choose;
  private final Kernel chooseWide;
  private final Kernel draw;
  private final Kernel settle;
  private final LogprobOps logprobs;
  private final UploadRing uploads;
  private final TransferOps transfers;
  private final DeviceScratch scratch;
  private final ResultBlock results;
  private final SamplePlan plan = new SamplePlan();
  private final HostSampler host = new HostSampler();

  /** The rows of a call. */
  private record Rows(long logits, LogitsType type, int vocabSize) {

    long bytes() {
      return (long) vocabSize * type.bytes();
    }
  }

  SampleOp(
      KernelLibrary library,
      Launch launch,
      LogprobOps logprobs,
      CudaContext context,
      CudaMemory memory,
      UploadRing uploads,
      TransferOps transfers) {
    this.launch = launch;
    this.logprobs = logprobs;
    this.uploads = uploads;
    this.transfers = transfers;
    copyAdjusted = library.kernel(KernelSource.SAMPLING, "copy_adjusted");
    adjust = library.kernel(KernelSource.SAMPLING, "adjust");
    choose = library.kernel(KernelSource.SAMPLING, "choose");
    chooseWide = library.kernel(KernelSource.SAMPLING, "choose_wide");
    draw = library.kernel(KernelSource.SAMPLING, "draw");
    settle = library.kernel(KernelSource.SAMPLING, "settle");
    scratch = new DeviceScratch(memory, "sampling");
    results = new ResultBlock(context);
  }

  /**
   * Samples entries; the results are complete on return.
   *
   * @param logits the address of rows, of the activations' type
   */
  List<SampledToken> run(long logits, LogitsType type, int vocabSize, List<SamplingRow> entries) {
    Rows rows = new Rows(logits, type, vocabSize);
    SampledToken[] tokens = new SampledToken[entries.size()];
    plan.clear(vocabSize);
    for (int i = 0; i < tokens.length; i++) {
      if (!plan.add(i, entries.get(i))) {
        tokens[i] = onHost(rows, entries.get(i));
      }
      if (plan.full()) {
        runPlan(rows, tokens);
      }
    }
    runPlan(rows, tokens);
    return Arrays.asList(tokens);
  }

  private void runPlan(Rows rows, SampledToken[] tokens) {
    if (!plan.isEmpty()) {
      launchPlan(rows);
      // Complete from here on: the copy waits for the kernels, and the host for the copy.
      ByteBuffer read = results.download(plan.results(), plan.resultBytes());
      for (SamplePlan.Item item : plan.items()) {
        tokens[item.index()] = token(rows, item, read);
      }
    }
    plan.clear(rows.vocabSize());
  }

  private void launchPlan(Rows rows) {
    int cols = rows.vocabSize();
    long base = scratch.atLeast(plan.bytes());
    Words words = plan.place(base, rows.logits(), rows.bytes());
    uploads.to(base).ints(words.array(), 0, words.size()).end();
    int entries = plan.items().size();
    int parts = LogprobOps.parts(cols);
    int threads = LogprobOps.SCAN_THREADS;
    if (plan.adjusts()) {
      launch.of(copyAdjusted).address(plan.entriesAt()).i32(cols);
      launch.run(parts, entries, 1, threads, 0);
      launch.of(adjust).address(plan.entriesAt()).run(entries, threads);
    }
    logprobs.scan(plan.jobsAt(), plan.jobs(), cols, plan.scanAt());
    launch
        .of(choose)
        .address(plan.entriesAt())
        .i32(cols)
        .address(plan.scanAt())
        .address(LogprobOps.groups(plan.scanAt(), plan.jobs(), cols))
        .i32(parts)
        .address(plan.statesAt())
        .run(entries, threads);
    if (plan.needsWide()) {
      launch.of(chooseWide).address(plan.entriesAt()).i32(cols).i32(parts);
      launch.address(plan.statesAt()).run(entries, LogprobOps.SELECT_THREADS);
    }
    if (plan.needsDraw()) {
      ofDraw(draw, cols).run(parts, entries, 1, threads, 0);
    }
    if (plan.needsDraw() || plan.needsLogprobs()) {
      ofDraw(settle, cols).run(parts, entries, 1, threads, 0);
    }
  }

  private Launch ofDraw(Kernel kernel, int cols) {
    return launch
        .of(kernel)
        .address(plan.entriesAt())
        .i32(cols)
        .address(plan.statesAt())
        .address(plan.drawnAt());
  }

  private SampledToken token(Rows rows, SamplePlan.Item item, ByteBuffer result) {
    int at = item.result();
    SamplingRow row = item.row();
    int token = result.getInt(at + 20);
    if (result.getInt(at + 24) != 0) {
      return onHost(rows, row);
    }
    return new SampledToken(
        token,
        row.logprobs() >= 0 ? logprobs(result, at, token) : null,
        row.copyLogits() ? read(rows, row.row()) : null,
        null);
  }

  private static TokenLogprobs logprobs(ByteBuffer result, int at, int token) {
    double logOfSum = Math.log(result.getDouble(at));
    float max = result.getFloat(at + 8);
    Map<Integer, TokenLogprobs.Entry> entries = new LinkedHashMap<>();
    for (long key : LogprobOps.keys(result, at)) {
      float logprob = RowResult.logprob(RankKeys.logit(key), max, logOfSum);
      entries.put(RankKeys.id(key), new TokenLogprobs.Entry(logprob, entries.size() + 1));
    }
    float own = RowResult.logprob(result.getFloat(at + 12), max, logOfSum);
    entries.putIfAbsent(token, new TokenLogprobs.Entry(own, result.getInt(at + 16) + 1));
    return new TokenLogprobs(token, entries);
  }

  private SampledToken onHost(Rows rows, SamplingRow row) {
    return host.sample(read(rows, row.row()), row);
  }

  private float[] read(Rows rows, int row) {
    float[] logits = new float[rows.vocabSize()];
    transfers.read(rows.logits() + row * rows.bytes(), rows.type(), logits.length, logits, 0);
    return logits;
  }

  @Override
  public void close() {
    scratch.close();
    results.close();
  }
}
