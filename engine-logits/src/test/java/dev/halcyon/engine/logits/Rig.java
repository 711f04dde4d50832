package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.function.Function;

/** A plan on a fake device; closing it requires that nothing leaked and nothing was misused. */
final class Rig implements AutoCloseable {

  final FakeDevice device;
  final FakeHead head;
  final RankGroup ranks;
  final ContextLogitsPlan plan;

  private Rig(FakeDevice device, FakeHead head, RankGroup ranks, ContextLogitsPlan plan) {
    this.device = device;
    this.head = head;
    this.ranks = ranks;
    this.plan = plan;
  }

  /** One rank. */
  static Rig of(LogitsType type, int vocabSize) {
    return of(device -> FakeHead.whole(device, type, vocabSize));
  }

  /** One rank. */
  static Rig of(Function<FakeDevice, FakeHead> head) {
    FakeDevice device = new FakeDevice();
    return on(device, head.apply(device), RankGroup.single());
  }

  /** One of some ranks. */
  static Rig on(FakeDevice device, FakeHead head, RankGroup ranks) {
    return new Rig(device, head, ranks, new ContextLogitsPlan(head, device, ranks));
  }

  /**
   * One rank, on which logprobs go by tiles of so many bytes, of 128 columns at least.
   *
   * @param miss see {@link FakeHead#tiled(int)}
   */
  static Rig byTiles(LogitsType type, int vocabSize, long tileBytes, int miss) {
    return byTiles(new FakeDevice(), type, vocabSize, tileBytes, miss);
  }

  /** As above, on a device that may have been told to fail. */
  static Rig byTiles(FakeDevice device, LogitsType type, int vocabSize, long tileBytes, int miss) {
    FakeHead head = FakeHead.whole(device, type, vocabSize).tiled(miss);
    RankGroup ranks = RankGroup.single();
    return new Rig(device, head, ranks, new ContextLogitsPlan(head, device, ranks, tileBytes, 128));
  }

  /** A prompt for this head. */
  Prompt prompt(long seed, int length) {
    return new Prompt(seed, length, head.vocabSize(), head.outputType());
  }

  /** Runs a new prompt without failures, and requires the right values. */
  void requireServes(int length) {
    Prompt prompt = prompt(length * 31L, length);
    try (Request request = new Request(this, prompt, 40)) {
      request.runAndCheck(true, 3);
    }
  }

  @Override
  public void close() {
    plan.close();
    assertThat(device.memory.account.open()).as("open device buffers").isZero();
    assertThat(device.memory.account.used()).as("device bytes").isZero();
    assertThat(device.host.account.open()).as("open host buffers").isZero();
    assertThat(device.memory.account.violations()).isEmpty();
    assertThat(device.host.account.violations()).isEmpty();
    assertThat(device.memory.account.timesClosedAgain()).as("device buffers closed twice").isZero();
    assertThat(device.host.account.timesClosedAgain()).as("host buffers closed twice").isZero();
  }
}
