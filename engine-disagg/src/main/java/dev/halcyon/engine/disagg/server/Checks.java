package dev.halcyon.engine.disagg.server;

import java.time.Duration;

/** Checks of options: each throws IllegalArgumentException with the option's name. */
public final class Checks {

  private Checks() {}

  public static void atLeast(long least, long value, String name) {
    if (value < least) {
      throw new IllegalArgumentException(name + " must be at least " + least + ", got " + value);
    }
  }

  public static void positive(Duration value, String name) {
    if (value.isZero() || value.isNegative()) {
      throw new IllegalArgumentException(name + " must be positive, got " + value);
    }
  }

  public static void notNegative(Duration value, String name) {
    if (value.isNegative()) {
      throw new IllegalArgumentException(name + " must not be negative, got " + value);
    }
  }
}
