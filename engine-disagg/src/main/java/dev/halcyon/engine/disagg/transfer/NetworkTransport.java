package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvTransport;
import java.util.Optional;

/** The transports between processes, of which configuration chooses one: the same on both sides. */
public enum NetworkTransport {
  /** {@link TcpTransport}: everywhere. */
  TCP {
    @Override
    public Optional<String> unavailable() {
      return Optional.empty();
    }

    @Override
    public TcpTransport open(NetworkOptions options) {
      return new TcpTransport(options);
    }
  },
  /** {@link UcxTransport}: where the machine has UCX. */
  UCX {
    @Override
    public Optional<String> unavailable() {
      return UcxTransport.unavailable();
    }

    @Override
    public UcxTransport open(NetworkOptions options) {
      return new UcxTransport(options);
    }
  };

  /** Why it can't be used here; empty if it can. */
  public abstract Optional<String> unavailable();

  /**
   * Opens one, listening if the options say so.
   *
   * @throws IllegalArgumentException if the options ask for what it hasn't
   * @throws EngineException if it can't be used here
   * @throws KvTransferException if the address can't be listened on
   */
  public abstract KvTransport open(NetworkOptions options);
}
