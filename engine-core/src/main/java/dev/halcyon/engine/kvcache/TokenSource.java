package dev.halcyon.engine.kvcache;

/** Token ids by position, for example a prompt or a sequence that still grows at its end. */
public interface TokenSource {

  /** The number of tokens. */
  int size();

  /** The id at a position from 0 to size() - 1; it never changes. */
  int token(int index);
}
