package dev.halcyon.engine.transfer;

/**
 * A prompt as it lies in its engine's cache, for another engine of the same JVM to copy it from
 * there. It can be copied once it is complete, until the source ends or is withdrawn; a copy that
 * is under way then is waited for. What it consists of is known to engines alone.
 */
public interface KvView {

  /**
   * Whether it can be copied. If not, the prompt is being computed, and {@link KvOffer#advanced}
   * tells of it when that has changed.
   */
  boolean complete();
}
