package dev.halcyon.engine.cuda;

/** An operation can't be part of a graph: it needs something of the host or of the allocator. */
final class NotRecordableException extends RuntimeException {

  private static final long serialVersionUID = 1L;

  NotRecordableException(String message) {
    super(message);
  }
}
