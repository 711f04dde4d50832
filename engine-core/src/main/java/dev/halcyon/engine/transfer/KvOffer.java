package dev.halcyon.engine.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;

/** The context side's hold on what it offered. */
public interface KvOffer {

  /** What the generation side fetches it with. */
  KvDescriptor descriptor();

  /**
   * Says that the prompt's computation goes on; more of it may be {@linkplain KvSource#progress
   * there}: after each step, and in the midst of one after each layer where that can be read by
   * then. Several threads may say so. Must not block.
   */
  default void advanced() {}

  /**
   * Takes the offer back; whoever is fetching it hears why. Does nothing once it has ended. Must
   * not block.
   */
  void withdraw(KvTransferException why);
}
