package dev.halcyon.engine.cuda;

import java.nio.ByteBuffer;

/**
 * Copies keys and values from the host to the cache, in the order of the compute stream. For the
 * owner thread.
 */
final class KvImportOp implements AutoCloseable {

  private final UploadRing uploads;
  private final DeviceScratch table;
  private final KvTurns turns;

  KvImportOp(
      KernelLibrary library,
      Launch launch,
      CudaContext context,
      CudaMemory memory,
      UploadRing uploads) {
    this.uploads = uploads;
    table = new DeviceScratch(memory, "blocks of keys and values to copy");
    turns = new KvTurns(context, library, launch, "kv_import");
  }

  /** Copies tokens; what is called from now on finds them in the cache. */
  void run(KvTokens tokens, ByteBuffer from) {
    turns.prepare();
    long blocks = upload(tokens);
    int next = 0;
    for (long done = 0; done < tokens.bytes(); next ^= 1) {
      int run = (int) Math.min(KvTurns.BYTES, tokens.bytes() - done);
      turns.await(next).put(from.slice().limit(run));
      from.position(from.position() + run);
      done += turns.start(tokens, blocks, done, next);
    }
  }

  /** Puts the numbers of the blocks that are needed on the device; returns where. */
  private long upload(KvTokens tokens) {
    int count = tokens.blockCount();
    long address = table.atLeast((long) count * Integer.BYTES);
    uploads.to(address).ints(tokens.blocks(), tokens.firstBlock(), count).end();
    return address;
  }

  @Override
  public void close() {
    table.close();
    turns.close();
  }
}
