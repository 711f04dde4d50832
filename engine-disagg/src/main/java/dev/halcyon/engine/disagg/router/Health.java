package dev.halcyon.engine.disagg.router;

/**
 * Whether an endpoint is up, by what checks and calls of it came to. It is up at first: a router
 * that starts beside its endpoints need not wait for its own checks. Safe for use by several
 * threads.
 */
final class Health {

  private final int failuresToMarkDown;
  private final int successesToMarkUp;
  private boolean up = true;
  private int failures;
  private int successes;

  Health(int failuresToMarkDown, int successesToMarkUp) {
    this.failuresToMarkDown = failuresToMarkDown;
    this.successesToMarkUp = successesToMarkUp;
  }

  synchronized boolean isUp() {
    return up;
  }

  /** Notes a failed check or call; returns whether the endpoint is down by it. */
  synchronized boolean failed() {
    successes = 0;
    failures++;
    boolean down = up && failures >= failuresToMarkDown;
    up &= !down;
    return down;
  }

  /** Notes a good call. A call that began before the endpoint went down says nothing of now. */
  synchronized void callSucceeded() {
    if (up) {
      failures = 0;
    }
  }

  /** Notes a good check; returns whether the endpoint is up again by it. */
  synchronized boolean checkSucceeded() {
    failures = 0;
    if (up) {
      return false;
    }
    successes++;
    up = successes >= successesToMarkUp;
    if (up) {
      successes = 0;
    }
    return up;
  }
}
