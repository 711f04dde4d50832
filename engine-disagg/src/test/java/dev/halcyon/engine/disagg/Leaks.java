package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The engine's threads, and the sockets where the system tells, that were there at a time. */
public final class Leaks {

  private static final Path FILES = Path.of("/proc/self/fd");

  private final Set<Thread> threads = threads();
  private final Set<String> sockets = sockets();

  private Leaks() {}

  public static Leaks since() {
    return new Leaks();
  }

  /** Waits until every socket is closed that was not there. */
  public void awaitNoSockets() {
    await("sockets", () -> newOnes(sockets(), sockets));
  }

  /** Waits until every thread has ended that was not there. */
  public void awaitNoThreads() {
    await("threads", () -> newOnes(threads(), threads));
  }

  private static void await(String what, Supplier<Set<?>> left) {
    Waiting.atMost(Duration.ofMinutes(1), () -> left.get().isEmpty());
    assertThat(left.get()).as(what + " that are left").isEmpty();
  }

  private static <T> Set<T> newOnes(Set<T> now, Set<T> before) {
    now.removeAll(before);
    return now;
  }

  /** Without those that tell callers, which last some seconds in case they are needed again. */
  private static Set<Thread> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith("halcyon"))
        .filter(thread -> !thread.getName().equals("halcyon-delivery"))
        .collect(Collectors.toSet());
  }

  /** By names that no two of them have. */
  private static Set<String> sockets() {
    if (!Files.exists(FILES)) {
      return new HashSet<>();
    }
    try (Stream<Path> files = Files.list(FILES)) {
      return files
          .map(Leaks::target)
          .filter(target -> target.startsWith("socket:"))
          .collect(Collectors.toSet());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String target(Path file) {
    try {
      return Files.readSymbolicLink(file).toString();
    } catch (IOException e) {
      return "closed by now";
    }
  }
}
