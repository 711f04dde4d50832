package dev.halcyon.engine.benchmarks;

/**
 * What a scenario took.
 *
 * @param seconds from before its storage is prepared until its last row is there
 * @param workspaceBytes device memory of the resident workspace
 * @param requestBytes the most device memory held at once beside that and the hidden rows
 * @param hostBytes the most host memory held at once, and the Java heap that the result keeps
 */
record LogitsCost(double seconds, long workspaceBytes, long requestBytes, long hostBytes) {

  /** The faster of two runs, with the larger of each kind of memory. */
  LogitsCost best(LogitsCost other) {
    return new LogitsCost(
        Math.min(seconds, other.seconds),
        Math.max(workspaceBytes, other.workspaceBytes),
        Math.max(requestBytes, other.requestBytes),
        Math.max(hostBytes, other.hostBytes));
  }
}
