package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class CpuBenchmarkTest {

  @TempDir Path cache;

  @Test
  void aTinyModelGoesThroughEveryMeasurement() {
    StringWriter out = new StringWriter();
    int exit =
        new CommandLine(new CpuBenchmark())
            .setOut(new PrintWriter(out))
            .execute(
                "--cache-dir=" + cache,
                "--threads=2",
                "--layers=2",
                "--hidden=64",
                "--inner=128",
                "--heads=4",
                "--kv-heads=2",
                "--vocab=512",
                "--batches=1,2",
                "--prompt=4",
                "--generate=64",
                "--prefill=32",
                "--bandwidth-mib=8",
                "--sgemm-size=128");

    assertThat(exit).isZero();
    assertThat(out.toString().lines().filter(line -> line.startsWith("|")))
        .satisfiesExactly(
            line -> assertThat(line).startsWith("|  | Halcyon | limit | of the limit |"),
            line -> assertThat(line).startsWith("|---"),
            line -> assertThat(line).startsWith("| stream read, GB/s |"),
            line -> assertThat(line).startsWith("| OpenBLAS sgemm, GFLOP/s |"),
            line -> assertThat(line).matches("\\| decode, batch 1, tokens/s \\| [0-9.]+ .*"),
            line -> assertThat(line).matches("\\| decode, batch 2, tokens/s \\| [0-9.]+ .*"),
            line -> assertThat(line).matches("\\| prefill, 32 tokens, tokens/s \\| [0-9.]+ .*"));
    assertThat(out.toString()).contains("2 threads, JDK ");
  }
}
