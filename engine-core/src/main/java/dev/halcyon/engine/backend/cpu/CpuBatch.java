package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.KvShape;

/** A batch that was checked once, so that no operation of the step reads outside its arrays. */
final class CpuBatch implements DeviceBatch {

  private final Batch batch;
  private KvShape checked;

  CpuBatch(Batch batch) {
    batch.requireConsistent();
    this.batch = batch;
  }

  static CpuBatch of(DeviceBatch batch) {
    if (!(batch instanceof CpuBatch cpu)) {
      throw new IllegalArgumentException("batch is not one of the CPU backend: " + batch);
    }
    return cpu;
  }

  /** Checks slots and block tables against a cache, once for each shape of cache. */
  void checkFor(CpuKvStorage kv) {
    if (!kv.shape().equals(checked)) {
      batch.requireFits(kv.shape());
      checked = kv.shape();
    }
  }

  @Override
  public Batch batch() {
    return batch;
  }
}
