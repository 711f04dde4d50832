package dev.halcyon.engine.backend;

/** The device memory of a paged KV cache; its layout is the backend's own. */
public interface KvStorage extends AutoCloseable {

  KvShape shape();

  /** Copies a block's keys and values, in every layer. */
  void copyBlock(int from, int to);

  @Override
  void close();
}
