package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;

/**
 * A prompt on its way through a plan in chunks, each of them between rows of NaN. What a step
 * brings, hidden rows and room for the last row, is allocated before, not by the plan.
 */
final class Request implements AutoCloseable {

  /** Asks for no compact logprobs. */
  static final int NO_LOGPROBS = -1;

  private static final int ROWS_BEFORE = 3;
  private static final int ROWS_AFTER = 2;

  private final Rig rig;
  private final Prompt prompt;
  private final int chunk;
  private final List<DeviceBuffer> hidden = new ArrayList<>();
  private final List<DeviceBuffer> lastRows = new ArrayList<>();

  Request(Rig rig, Prompt prompt, int chunk) {
    this.rig = rig;
    this.prompt = prompt;
    this.chunk = chunk;
    LogitsType type = rig.head.outputType();
    for (int position = 0; position < prompt.length(); position += chunk) {
      int rows = rows(position);
      hidden.add(prompt.upload(rig.device, type, position, rows, ROWS_BEFORE, ROWS_AFTER));
      lastRows.add(
          rig.device.memory().allocate((long) type.bytes() * rig.head.vocabSize(), "last row"));
    }
  }

  private int rows(int position) {
    return Math.min(chunk, prompt.length() - position);
  }

  ContextLogits open(boolean full, int k) {
    return rig.plan.open(
        "request 7", prompt.length(), full, k == NO_LOGPROBS ? null : prompt.logprobs(k));
  }

  /** Projects every chunk, of the step that belongs to its number. */
  void project(ContextLogits target, IntFunction<BatchDescription> batches) {
    for (int i = 0; i < chunks(); i++) {
      project(target, i, batches.apply(i));
    }
  }

  int chunks() {
    return hidden.size();
  }

  /** Projects a chunk by its number. */
  void project(ContextLogits target, int number, BatchDescription batch) {
    int position = number * chunk;
    rig.plan.project(
        target,
        batch,
        hidden.get(number),
        ROWS_BEFORE,
        position,
        rows(position),
        lastRows.get(number));
  }

  /** Projects every chunk, and wants no copy of the last rows. */
  void projectWithoutLastRow(ContextLogits target) {
    for (int i = 0; i < chunks(); i++) {
      int position = i * chunk;
      rig.plan.project(
          target,
          BatchDescription.PLAIN,
          hidden.get(i),
          ROWS_BEFORE,
          position,
          rows(position),
          null);
    }
  }

  /** Requires that the last row of each chunk is there still, after all that came later. */
  void requireLastRows() {
    float[] row = new float[rig.head.vocabSize()];
    for (int i = 0; i < lastRows.size(); i++) {
      int position = i * chunk;
      rig.device.read(lastRows.get(i), rig.head.outputType(), 0, row.length, row, 0);
      assertThat(row)
          .as("last row of chunk %d", i)
          .isEqualTo(prompt.logits(position + rows(position) - 1));
    }
  }

  void runAndCheck(boolean full, int k) {
    runAndCheck(full, k, i -> BatchDescription.PLAIN);
  }

  void runAndCheck(boolean full, int k, IntFunction<BatchDescription> batches) {
    try (ContextLogits target = open(full, k)) {
      project(target, batches);
      check(target, full, k);
    }
  }

  /** Requires what a finished request has to be right, and takes it. */
  void check(ContextLogits target, boolean full, int k) {
    requireLastRows();
    checkResults(target, full, k);
  }

  /** The same, but for the copies of last rows. */
  void checkResults(ContextLogits target, boolean full, int k) {
    assertThat(target.complete()).isTrue();
    if (rig.ranks.rank() != 0) {
      assertThat(target.takeFull()).isNull();
      assertThat(target.logprobs()).isNull();
      return;
    }
    try (FullLogits rows = target.takeFull()) {
      assertThat(rows != null).isEqualTo(full);
      if (full) {
        prompt.requireFull(rows);
      }
      if (k != NO_LOGPROBS) {
        int firstToken = prompt.ids[0];
        target.logprobs().scoreFirstToken(firstToken);
        prompt.requireLogprobs(target.logprobs(), firstToken);
      }
    }
  }

  @Override
  public void close() {
    hidden.forEach(DeviceBuffer::close);
    lastRows.forEach(DeviceBuffer::close);
  }
}
