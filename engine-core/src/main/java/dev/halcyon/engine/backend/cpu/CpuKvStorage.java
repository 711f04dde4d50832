package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.KvRange;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The paged KV cache, float32. A block of a layer is contiguous: for each head its keys as
 * [headDim, blockSize], then for each head its values as [blockSize, headDim]. Keys lie dimension
 * by dimension so that the scores of neighbouring positions fill a vector, with no sum across its
 * lanes.
 *
 * <p>A layer is one buffer, or several of whole blocks where it is larger than one buffer can be.
 */
final class CpuKvStorage implements KvStorage {

  private final KvShape shape;
  private final WorkerPool pool;
  private final int blocksPerBuffer;
  private final int buffersPerLayer;
  private final int blockFloats;
  private final List<CpuBuffer> buffers = new ArrayList<>();
  private final StoredRuns stored = new StoredRuns(this);
  private boolean closed;

  /**
   * @throws OutOfDeviceMemoryException if the memory has no room; nothing is held then
   */
  CpuKvStorage(KvShape shape, CpuMemory memory, WorkerPool pool) {
    this.shape = shape;
    this.pool = pool;
    shape.requireValid();
    long blockBytes = 2L * shape.blockSize() * shape.heads() * shape.headDim() * Float.BYTES;
    if (blockBytes > memory.maxBufferBytes()) {
      throw new IllegalArgumentException("A KV block of " + blockBytes + " bytes is too large");
    }
    blockFloats = (int) (blockBytes / Float.BYTES);
    blocksPerBuffer = (int) Math.min(shape.blocks(), memory.maxBufferBytes() / blockBytes);
    buffersPerLayer = (shape.blocks() + blocksPerBuffer - 1) / blocksPerBuffer;
    try {
      for (int layer = 0; layer < shape.layers(); layer++) {
        for (int i = 0; i < buffersPerLayer; i++) {
          int blocks = Math.min(blocksPerBuffer, shape.blocks() - i * blocksPerBuffer);
          buffers.add(memory.allocate(blocks * blockBytes, "the KV cache"));
        }
      }
    } catch (Throwable t) {
      close();
      throw t;
    }
  }

  static CpuKvStorage of(KvStorage kv) {
    if (!(kv instanceof CpuKvStorage cpu)) {
      throw new IllegalArgumentException("kv is not a cache of the CPU backend: " + kv);
    }
    if (cpu.closed) {
      throw new IllegalStateException("The KV cache is closed");
    }
    return cpu;
  }

  @Override
  public KvShape shape() {
    return shape;
  }

  /** The buffer that holds a block of a layer. */
  FloatBuffer buffer(int layer, int block) {
    return buffers.get(layer * buffersPerLayer + block / blocksPerBuffer).floats();
  }

  /** How many blocks from this one on lie one behind the other, this one included. */
  int blocksInARow(int block) {
    return blocksPerBuffer - block % blocksPerBuffer;
  }

  /** The floats of a block in one layer. */
  int blockFloats() {
    return blockFloats;
  }

  /** Where a head's keys of a block begin, in the block's buffer. */
  int keys(int block, int head) {
    return block % blocksPerBuffer * blockFloats + head * shape.headDim() * shape.blockSize();
  }

  /** Where a head's values of a block begin, in the block's buffer. */
  int values(int block, int head) {
    return keys(block, head) + blockFloats / 2;
  }

  @Override
  public void copyBlock(int from, int to) {
    if (closed) {
      throw new IllegalStateException("The KV cache is closed");
    }
    shape.requireBlock(from);
    shape.requireBlock(to);
    if (from == to) {
      return;
    }
    for (int layer = 0; layer < shape.layers(); layer++) {
      buffer(layer, to).put(keys(to, 0), buffer(layer, from), keys(from, 0), blockFloats);
    }
  }

  @Override
  public boolean transferable() {
    return true;
  }

  @Override
  public void exportTokens(int layer, int[] blocks, int firstToken, int count, ByteBuffer to) {
    copyRuns(this::exportRun, layer, blocks, firstToken, count, to);
  }

  @Override
  public void importTokens(int layer, int[] blocks, int firstToken, int count, ByteBuffer from) {
    copyRuns(this::importRun, layer, blocks, firstToken, count, from);
  }

  @Override
  public boolean exportsOnAnyThread() {
    return true;
  }

  @Override
  public String storedOrder() {
    return "cpu-f32-keys-by-dimension/" + shape.blockSize();
  }

  @Override
  public void exportStored(int layer, int[] blocks, int firstToken, int count, ByteBuffer to) {
    copyRuns(
        (l, block, first, run, wire, at, total) ->
            stored.exportRun(l, block, first, run, wire, at * 2 * rowFloats()),
        layer,
        blocks,
        firstToken,
        count,
        to);
  }

  @Override
  public void importStored(int layer, int[] blocks, int firstToken, int count, ByteBuffer from) {
    copyRuns(
        (l, block, first, run, wire, at, total) ->
            stored.importRun(l, block, first, run, wire, at * 2 * rowFloats()),
        layer,
        blocks,
        firstToken,
        count,
        from);
  }

  /** Copies tokens of one block. */
  private interface RunCopy {

    /**
     * @param first the first token's offset in the block
     * @param run how many there are
     * @param at the first one's place among the {@code count} of the wire
     */
    void copy(int layer, int block, int first, int run, FloatBuffer wire, int at, int count);
  }

  private void copyRuns(
      RunCopy copy, int layer, int[] blocks, int firstToken, int count, ByteBuffer buffer) {
    FloatBuffer wire = wire(layer, blocks, firstToken, count, buffer);
    for (int done = 0; done < count; ) {
      int token = firstToken + done;
      int block = blocks[token / shape.blockSize()];
      int first = token % shape.blockSize();
      int run = Math.min(count - done, shape.blockSize() - first);
      copy.copy(layer, block, first, run, wire, done, count);
      done += run;
    }
    buffer.position(buffer.position() + count * 2 * rowFloats() * Float.BYTES);
  }

  private void exportRun(
      int layer, int block, int first, int run, FloatBuffer wire, int at, int count) {
    FloatBuffer cache = buffer(layer, block);
    int dim = shape.headDim();
    int values = count * rowFloats();
    for (int head = 0; head < shape.heads(); head++) {
      int keys = keys(block, head) + first;
      for (int i = 0; i < run; i++) {
        int to = (at + i) * rowFloats() + head * dim;
        for (int d = 0; d < dim; d++) {
          wire.put(to + d, cache.get(keys + i + d * shape.blockSize()));
        }
        wire.put(values + to, cache, values(block, head) + (first + i) * dim, dim);
      }
    }
  }

  private void importRun(
      int layer, int block, int first, int run, FloatBuffer wire, int at, int count) {
    FloatBuffer cache = buffer(layer, block);
    int dim = shape.headDim();
    int values = count * rowFloats();
    for (int head = 0; head < shape.heads(); head++) {
      int keys = keys(block, head) + first;
      for (int i = 0; i < run; i++) {
        int from = (at + i) * rowFloats() + head * dim;
        for (int d = 0; d < dim; d++) {
          cache.put(keys + i + d * shape.blockSize(), wire.get(from + d));
        }
        cache.put(values(block, head) + (first + i) * dim, wire, values + from, dim);
      }
    }
  }

  /** Floats of a token's keys in a layer. */
  private int rowFloats() {
    return shape.heads() * shape.headDim();
  }

  private FloatBuffer wire(int layer, int[] blocks, int firstToken, int count, ByteBuffer buffer) {
    if (closed) {
      throw new IllegalStateException("The KV cache is closed");
    }
    shape.requireTokens(layer, blocks, firstToken, count, Float.BYTES, buffer.remaining());
    return buffer.slice().order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
  }

  @Override
  public boolean copiesFrom(KvStorage other) {
    return other instanceof CpuKvStorage cpu && shape.holdsTheSameAs(cpu.shape);
  }

  @Override
  public void copyTokens(KvStorage from, int[] fromBlocks, int[] blocks, KvRange range) {
    if (closed) {
      throw new IllegalStateException("The KV cache is closed");
    }
    new CpuKvCopy(pool, of(from), fromBlocks, this, blocks).copy(range);
  }

  @Override
  public void close() {
    closed = true;
    buffers.forEach(CpuBuffer::close);
  }
}
