package dev.halcyon.engine.disagg.router;

/**
 * Why an endpoint's answer did not come, or not to its end.
 *
 * @param reason for logs
 */
record ExchangeFailure(Kind kind, String reason) {

  enum Kind {
    /** Nothing of the request has reached the endpoint. */
    NOT_SENT,
    /** A connection that was kept from before has been closed, perhaps before it was used again. */
    STALE,
    /** There is no valid answer. */
    BROKEN,
    /** The answer has more bytes than are taken; a fault of the request, not of the endpoint. */
    TOO_LARGE
  }

  /** Whether something of the request may have reached the endpoint. */
  boolean sent() {
    return kind != Kind.NOT_SENT;
  }
}
