package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import dev.halcyon.engine.backend.DType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Compiles every kernel for every architecture family with nvcc, so that a broken kernel is seen
 * without a GPU. Skipped where there is no nvcc.
 */
class KernelCompileTest {

  private static final Path RESOURCES =
      Path.of("src/main/resources/dev/halcyon/engine/cuda/kernels");
  private static final Path DEFAULT_NVCC = Path.of("/usr/local/cuda/bin/nvcc");

  @TempDir Path output;

  /** A file, an architecture and a type of activations. */
  private record Job(KernelSource source, KernelTarget target) {}

  @Test
  void everyKernelCompilesWithoutWarnings() {
    Path nvcc = nvcc();
    assumeThat(nvcc).as("nvcc").isNotNull();

    List<String> failures =
        jobs().parallelStream().map(job -> compile(nvcc, job)).filter(s -> !s.isEmpty()).toList();

    assertThat(failures).isEmpty();
  }

  /** Every architecture with the usual type, and every type with one architecture. */
  private static List<Job> jobs() {
    List<Job> jobs = new ArrayList<>();
    for (KernelSource source : KernelSource.values()) {
      for (String architecture : List.of("sm_80", "sm_90a", "sm_100a")) {
        jobs.add(new Job(source, new KernelTarget(architecture, DType.BF16)));
      }
      jobs.add(new Job(source, new KernelTarget("sm_90a", DType.F16)));
      jobs.add(new Job(source, new KernelTarget("sm_90a", DType.F32)));
    }
    return jobs;
  }

  private String compile(Path nvcc, Job job) {
    String name = job.source() + "-" + job.target().architecture() + job.target().activations();
    List<String> command = new ArrayList<>(List.of(nvcc.toString(), "-cubin"));
    command.addAll(job.target().options());
    command.addAll(
        List.of(
            "--Werror=all-warnings",
            // Whether it compiles is asked, not how well: this takes a fifth of the time.
            "-Xcicc=-O1",
            "-Xptxas=-O1",
            "-arch=" + job.target().architecture(),
            "-o",
            output.resolve(name).toString(),
            RESOURCES.resolve(job.source().file()).toString()));
    try {
      Path log = output.resolve(name + ".log");
      Process process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(log.toFile())
              .start();
      int status = process.waitFor();
      return status == 0 ? "" : name + ": " + Files.readString(log);
    } catch (IOException e) {
      return name + ": " + e;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return name + ": interrupted";
    }
  }

  /** The compiler on the PATH, or where it is installed by default; null if there is none. */
  private static Path nvcc() {
    String path = System.getenv().getOrDefault("PATH", "");
    return Stream.concat(
            Arrays.stream(path.split(java.io.File.pathSeparator))
                .filter(folder -> !folder.isBlank())
                .map(folder -> Path.of(folder, "nvcc")),
            Stream.of(DEFAULT_NVCC))
        .filter(Files::isExecutable)
        .findFirst()
        .orElse(null);
  }

  @Test
  void everyFileIsNamedOnce() throws IOException {
    List<String> named =
        Arrays.stream(KernelSource.values()).map(KernelSource::file).sorted().toList();
    try (Stream<Path> files = Files.list(RESOURCES)) {
      assertThat(
              files
                  .map(file -> file.getFileName().toString())
                  .filter(file -> file.endsWith(".cu"))
                  .sorted())
          .isEqualTo(named);
    }
  }
}
