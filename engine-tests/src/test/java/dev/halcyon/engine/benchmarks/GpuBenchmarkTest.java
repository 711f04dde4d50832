package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

@Tag("gpu")
class GpuBenchmarkTest {

  @TempDir Path cache;

  @Test
  void aTinyModelGoesThroughEveryMeasurement() {
    StringWriter out = new StringWriter();
    int exit =
        new CommandLine(new GpuBenchmark())
            .setOut(new PrintWriter(out))
            .execute(
                "--cache-dir=" + cache,
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
                "--runs=1");

    assertThat(exit).isZero();
    assertThat(out.toString().lines().filter(line -> line.startsWith("| ")))
        .satisfiesExactly(
            line -> assertThat(line).startsWith("|  | tokens/s | limit |"),
            line -> assertThat(line).matches("\\| decode, batch 1 \\| [0-9]+ .*"),
            line -> assertThat(line).matches("\\| decode, batch 2 \\| [0-9]+ .*"),
            line -> assertThat(line).matches("\\| prefill, 32 tokens \\| [0-9]+ .*"));
  }

  @Test
  void attentionOfSmallStepsIsMeasured() {
    StringWriter out = new StringWriter();
    int exit =
        new CommandLine(new AttentionBenchmark())
            .setOut(new PrintWriter(out))
            .execute("--sequences=1,3", "--context=300", "--kv-heads=4", "--runs=1");

    assertThat(exit).isZero();
    assertThat(out.toString().lines().filter(line -> line.startsWith("| ")).skip(1))
        .satisfiesExactly(
            row -> assertThat(row).matches("\\| 1 \\| 300 \\| [0-9.]+ .*"),
            row -> assertThat(row).matches("\\| 3 \\| 300 \\| [0-9.]+ .*"));
  }

  @Test
  void aTinyHeadGoesThroughEveryScenario() {
    StringWriter out = new StringWriter();
    int exit =
        new CommandLine(new LogitsBenchmark())
            .setOut(new PrintWriter(out))
            .execute(
                "--backend=cuda",
                "--rows=200",
                "--vocab=8192",
                "--hidden=64",
                "--chunk=80",
                "--runs=1");

    assertThat(exit).isZero();
    // A row is 16 KiB in the head's BF16 and 32 in float32: the resident 32 rows of both take 1.5
    // MiB, all 200 in float32 6.25 (6.3 when rounded), and 80 of a step in BF16 1.25 (1.3).
    assertThat(out.toString().lines().filter(line -> line.startsWith("| ")).skip(1))
        .satisfiesExactly(
            row -> assertThat(row).matches("\\| bare projection .*\\| 0.0 \\| 1.3 .*"),
            row -> assertThat(row).matches("\\| full, on the device .*\\| 1.5 \\| 7.5 .*"),
            row ->
                assertThat(row)
                    .matches("\\| full, on the host, the.*\\| 1.5 \\| 0.0 \\| 6.[3-9] .*"),
            row -> assertThat(row).matches("\\| full, on the host, again.*\\| 0.0 \\| 6.[3-9] .*"),
            row -> assertThat(row).matches("\\| compact, k = 0 .*\\| 1.5 \\| 1.3 .*"),
            row -> assertThat(row).matches("\\| compact, k = 5 .*\\| 1.5 \\| 1.3 .*"));
  }
}
