package dev.halcyon.engine.backend;

/** A {@link Batch} as a backend holds it for one step; valid until the next upload. */
public interface DeviceBatch {

  Batch batch();
}
