package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.function.BooleanSupplier;

/** Waits for what other threads or processes bring about, by looking again and again. */
public final class Waiting {

  /** Less than transfers last by default: what only their timeout brings about is too late. */
  private static final Duration MOST = Duration.ofSeconds(20);

  /** Short enough not to miss what holds but for a moment. */
  private static final Duration PAUSE = Duration.ofMillis(2);

  private Waiting() {}

  /**
   * Fails if a condition does not hold within twenty seconds.
   *
   * @param what the condition, to go on after "until"
   */
  public static void await(String what, BooleanSupplier condition) {
    await(what, MOST, condition);
  }

  /**
   * Fails if a condition does not hold in time.
   *
   * @param what the condition, to go on after "until"
   */
  public static void await(String what, Duration most, BooleanSupplier condition) {
    assertThat(atMost(most, condition)).as("waited %s, too long, until %s", most, what).isTrue();
  }

  /**
   * Waits until a condition holds, and goes on in time if it does not.
   *
   * @return whether it holds
   */
  public static boolean atMost(Duration most, BooleanSupplier condition) {
    long begin = System.nanoTime();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - begin > most.toNanos()) {
        return false;
      }
      pause(PAUSE);
    }
    return true;
  }

  /** Does nothing for a while. */
  public static void pause(Duration time) {
    try {
      Thread.sleep(time.toMillis());
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
