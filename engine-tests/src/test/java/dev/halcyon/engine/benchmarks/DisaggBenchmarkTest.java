package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DisaggBenchmarkTest {

  @TempDir Path cache;

  @Test
  void aTinyModelGoesOverBothWays() {
    // 2 layers x 40 tokens x 2 x 2 heads x 16 elements of 4 bytes: 20,480 bytes.
    requireRows("cpu", "0.0");
  }

  @Test
  @Tag("gpu")
  void aTinyModelGoesOverBothWaysOnAGpu() {
    requireRows("cuda", "0.0");
  }

  private void requireRows(String backend, String megabytes) {
    StringWriter out = new StringWriter();
    int exit =
        DisaggBenchmark.commandLine()
            .setOut(new PrintWriter(out))
            .execute(
                "--backend=" + backend,
                "--cache-dir=" + cache,
                "--layers=2",
                "--hidden=64",
                "--inner=128",
                "--heads=4",
                "--kv-heads=2",
                "--vocab=512",
                "--transport=in-process,tcp",
                "--prompt=40,2100",
                "--generate=4",
                "--batch=2",
                "--threads=1",
                "--runs=1");

    assertThat(exit).isZero();
    String figures = "( \\| [0-9.]+){8} \\| ";
    assertThat(out.toString().lines().filter(line -> line.matches("\\| (in-process|tcp), .*")))
        .satisfiesExactly(
            line -> assertThat(line).matches("\\| in-process, 40" + figures + megabytes + " .*"),
            line -> assertThat(line).matches("\\| in-process, 2100" + figures + ".*"),
            line -> assertThat(line).matches("\\| tcp, 40" + figures + ".*"),
            line -> assertThat(line).matches("\\| tcp, 2100" + figures + ".*"));
  }

  @Test
  void aRowRelatesTheSplitToTheWholeAndTheKeysToTheLink() {
    // 230 ms over 200 ms are 1.15, 210 are 1.05; 8 MB in 4 ms are 2 GB/s, 80 % of 2.5,
    // and in 8 ms 1 GB/s, 40 %.
    SplitFigures figures = new SplitFigures(0.2, 0.23, 0.21, 50, 40, 45, 8_000_000, 0.004, 0.008);
    assertThat(figures.row("tcp", 1024, 2.5e9))
        .isEqualTo(
            "| tcp, 1024 | 200.0 | 230.0 | 1.15 | 210.0 | 1.05 | 50.0 | 40.0 | 45.0 | 8.0 | 2.00"
                + " | 2.50 | 80 % | 40 % |\n");
  }
}
