package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

class LogitsBenchmarkTest {

  @Test
  void aTinyHeadGoesThroughEveryScenarioWithTheMemoryThatItsShapeTells() {
    StringWriter out = new StringWriter();
    int exit =
        new CommandLine(new LogitsBenchmark())
            .setOut(new PrintWriter(out))
            .execute(
                "--rows=200",
                "--vocab=8192",
                "--hidden=64",
                "--chunk=80",
                "--threads=2",
                "--runs=1",
                "--sgemm-size=128",
                "--prompts=2");

    assertThat(exit).isZero();
    // A row is 8192 x 4 bytes = 1/32 MiB: 80 rows of a step take 2.5 MiB, all 200 of them 6.25 (6.3
    // when rounded), the 32 resident ones 1.0.
    List<String> rows =
        out.toString().lines().filter(line -> line.startsWith("| ")).skip(1).toList();
    String time = "\\| [0-9.]+ \\| [0-9.]+ \\| [0-9]+ % ";
    assertThat(rows)
        .satisfiesExactly(
            row -> assertThat(row).matches("\\| bare projection " + time + "\\| 0.0 \\| 2.5 .*"),
            row ->
                assertThat(row).matches("\\| full, on the device " + time + "\\| 1.0 \\| 6.3 .*"),
            row ->
                assertThat(row)
                    .matches(
                        "\\| full, on the host, the first time "
                            + time
                            + "\\| 1.0 \\| 0.0 \\| [6-9].[0-9] .*"),
            row ->
                assertThat(row)
                    .matches(
                        "\\| full, on the host, again "
                            + time
                            + "\\| 1.0 \\| 0.0 \\| [6-9].[0-9] .*"),
            row -> assertThat(row).matches("\\| compact, k = 0 " + time + "\\| 1.0 \\| 2.5 .*"),
            row -> assertThat(row).matches("\\| compact, k = 5 " + time + "\\| 1.0 \\| 2.5 .*"));
  }

  @Test
  void theTableRelatesTimesToTheBareProjectionAndToTheLimit() {
    Map<LogitsScenario, LogitsCost> costs = new EnumMap<>(LogitsScenario.class);
    costs.put(LogitsScenario.BARE, new LogitsCost(2, 0, 512 << 20, 0));
    costs.put(LogitsScenario.COMPACT_5, new LogitsCost(2.5, 16 << 20, 48 << 20, 1 << 19));

    // 150 operations at 100 a second take at least 1.5 s: 75 % of 2 s, 60 % of 2.5 s.
    assertThat(new LogitsTable(150, 100).render(costs).lines().skip(2))
        .containsExactly(
            "| bare projection | 2.00 | 1.00 | 75 % | 0.0 | 512.0 | 0.0 |",
            "| compact, k = 5 | 2.50 | 1.25 | 60 % | 16.0 | 48.0 | 0.5 |");
  }

  @Test
  void theBestOfTwoRunsHasTheShorterTimeAndTheLargerMemory() {
    assertThat(new LogitsCost(3, 1, 20, 5).best(new LogitsCost(2, 1, 10, 7)))
        .isEqualTo(new LogitsCost(2, 1, 20, 7));
  }
}
