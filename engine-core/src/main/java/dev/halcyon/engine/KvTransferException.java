package dev.halcyon.engine;

/** The keys and values of a split request did not get from one engine to the other. */
public final class KvTransferException extends EngineException {

  private static final long serialVersionUID = 1;

  /** Why a transfer ended. */
  public enum Reason {
    /** The engines don't match: the message names what differs. Trying again changes nothing. */
    REFUSED,
    /** There is no such transfer: it was fetched before, timed out, or never was. */
    UNKNOWN,
    /** Nothing came for longer than the transfer timeout. */
    TIMEOUT,
    /** The other side, or the way to it, is gone. */
    PEER_LOST,
    /** The other side gave the request up. */
    CANCELLED,
    /** What came was not what was sent. */
    CORRUPT,
    /** The transport, or the engine, is closed. */
    CLOSED
  }

  private final Reason reason;

  public KvTransferException(Reason reason, String message) {
    super(message);
    this.reason = reason;
  }

  public KvTransferException(Reason reason, String message, Throwable cause) {
    super(message, cause);
    this.reason = reason;
  }

  public Reason reason() {
    return reason;
  }
}
