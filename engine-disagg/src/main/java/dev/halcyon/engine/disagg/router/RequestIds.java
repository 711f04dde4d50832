package dev.halcyon.engine.disagg.router;

import java.security.SecureRandom;
import java.util.HexFormat;

/** Names for requests that nobody can guess: who knows one can cancel it. */
final class RequestIds {

  private final SecureRandom random = new SecureRandom();

  String next() {
    byte[] bytes = new byte[16];
    random.nextBytes(bytes);
    return HexFormat.of().formatHex(bytes);
  }
}
