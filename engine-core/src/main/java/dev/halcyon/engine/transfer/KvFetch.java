package dev.halcyon.engine.transfer;

import dev.halcyon.engine.KvTransferException;

/** The generation side's hold on a transfer under way. */
public interface KvFetch {

  /** Gives the transfer up; the context side hears why. Does nothing once it has ended. */
  void cancel(KvTransferException why);
}
