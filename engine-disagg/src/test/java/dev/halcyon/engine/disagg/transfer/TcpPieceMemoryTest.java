package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class TcpPieceMemoryTest {

  private final TcpPieceMemory memory = new TcpPieceMemory();

  @Test
  void aBufferHasItsSizeAndNothingIn() {
    ByteBuf buffer = memory.acquire(26, 1 << 20);
    assertThat(buffer.isDirect()).isTrue();
    assertThat(buffer.capacity()).isEqualTo(26 + (1 << 20));
    assertThat(buffer.maxCapacity()).isEqualTo(26 + (1 << 20));
    assertThat(buffer.readableBytes()).isZero();
    // The piece begins a cache line.
    assertThat((buffer.memoryAddress() + 26) % 64).isZero();
    buffer.release();
  }

  @Test
  void memoryIsUsedAgainOnceTheLastReferenceIsGone() {
    ByteBuf first = memory.acquire(0, 5000);
    long address = first.memoryAddress();
    ByteBuf slice = first.retainedSlice(100, 10);
    first.release();
    assertThat(memory.inUse()).isEqualTo(1);
    ByteBuf second = memory.acquire(0, 5000);
    assertThat(second.memoryAddress()).isNotEqualTo(address);
    slice.release();
    assertThat(memory.inUse()).isEqualTo(1);
    // Of the same power of two, with room for a header of another size.
    ByteBuf third = memory.acquire(26, 8000);
    assertThat(third.memoryAddress() + 26).isEqualTo(address);
    second.release();
    third.release();
    assertThat(memory.inUse()).isZero();
  }

  @Test
  void memoryIsKeptUpToABoundAndUntilTheEnd() {
    KeptMemory<String> kept = new KeptMemory<>();
    int size = KeptMemory.sizeFor(NetworkOptions.MAX_PIECE_BYTES);
    assertThat(size).isEqualTo(64 + NetworkOptions.MAX_PIECE_BYTES);
    List<Boolean> isKept = new ArrayList<>();
    for (String name : List.of("a", "b", "c")) {
      isKept.add(kept.keep(size, name));
    }
    // Two of the largest and their headers' room are more than 64 MiB.
    assertThat(isKept).containsExactly(true, false, false);
    assertThat(kept.keep(KeptMemory.sizeFor(1), "small")).isTrue();
    assertThat(kept.take(size)).isEqualTo("a");
    assertThat(kept.take(size)).isNull();
    kept.close();
    assertThat(kept.take(KeptMemory.sizeFor(4096))).isNull();
    assertThat(kept.keep(size, "late")).isFalse();
  }
}
