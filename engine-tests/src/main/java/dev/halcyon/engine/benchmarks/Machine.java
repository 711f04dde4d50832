package dev.halcyon.engine.benchmarks;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What a benchmark ran on. */
final class Machine {

  private Machine() {}

  /** The processor, the threads used and the JDK, for a report. */
  static String describe(int threads) {
    return String.format("%s, %d threads, JDK %s", processor(), threads, Runtime.version());
  }

  /** The processor's name where the system tells it, else its architecture. */
  private static String processor() {
    Path info = Path.of("/proc/cpuinfo");
    try (var lines = Files.lines(info)) {
      return lines
          .filter(line -> line.startsWith("model name"))
          .map(line -> line.substring(line.indexOf(':') + 1).strip())
          .findFirst()
          .orElse(System.getProperty("os.arch"));
    } catch (IOException e) {
      return System.getProperty("os.arch");
    }
  }
}
