package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Ranks that are threads of one process. A rank that waits for one that doesn't come fails, and so
 * do the others.
 */
final class ThreadRanks {

  private static final int SECONDS = 10;

  private final CyclicBarrier barrier;
  private final byte[][] parts;
  private final int[] votes;

  ThreadRanks(int size) {
    this.barrier = new CyclicBarrier(size);
    this.parts = new byte[size][];
    this.votes = new int[size];
  }

  RankGroup of(int rank, FakeDevice device) {
    return new Member(rank, device);
  }

  private void meet() {
    try {
      barrier.await(SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException | BrokenBarrierException | TimeoutException e) {
      throw new AssertionError("the ranks don't agree on what they do together", e);
    }
  }

  private final class Member implements RankGroup {
    private final int rank;
    private final FakeDevice device;

    Member(int rank, FakeDevice device) {
      this.rank = rank;
      this.device = device;
    }

    @Override
    public int size() {
      return votes.length;
    }

    @Override
    public int rank() {
      return rank;
    }

    @Override
    public void allGather(DeviceBuffer from, long bytes, DeviceBuffer to) {
      device.complete();
      byte[] part = new byte[Math.toIntExact(bytes)];
      FakeMemory.use(from, source -> source.get(part));
      parts[rank] = part;
      meet();
      FakeMemory.use(to, this::join);
      meet();
    }

    private void join(ByteBuffer target) {
      for (byte[] part : parts) {
        assertThat(part.length).as("bytes of another rank").isEqualTo(parts[rank].length);
        target.put(part);
      }
    }

    @Override
    public int min(int value, DeviceBuffer scratch) {
      assertThat(scratch.bytes()).isGreaterThanOrEqualTo(4L * (size() + 1));
      FakeMemory.use(scratch, bytes -> bytes.putInt(0, value));
      votes[rank] = value;
      meet();
      int lowest = votes[0];
      for (int vote : votes) {
        lowest = Math.min(lowest, vote);
      }
      meet();
      return lowest;
    }
  }
}
