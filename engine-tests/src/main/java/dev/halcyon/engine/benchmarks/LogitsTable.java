package dev.halcyon.engine.benchmarks;

import java.util.Locale;
import java.util.Map;

/** What the scenarios took, as a Markdown table. */
final class LogitsTable {

  private final double operations;
  private final double peak;

  /**
   * @param operations floating-point operations of the projection of all rows
   * @param peak floating-point operations that the machine does in a second
   */
  LogitsTable(double operations, double peak) {
    this.operations = operations;
    this.peak = peak;
  }

  /** Renders what was measured; the bare projection has to be among it. */
  String render(Map<LogitsScenario, LogitsCost> costs) {
    double bare = costs.get(LogitsScenario.BARE).seconds();
    StringBuilder table =
        new StringBuilder(
            """
            |  | time, s | over bare | of the limit | device, workspace, MiB | device, request, MiB | host, MiB |
            |---|---:|---:|---:|---:|---:|---:|
            """);
    costs.forEach(
        (scenario, cost) ->
            table.append(
                String.format(
                    Locale.ROOT,
                    "| %s | %s | %.2f | %.0f %% | %s | %s | %s |%n",
                    scenario.title(),
                    seconds(cost.seconds()),
                    cost.seconds() / bare,
                    100 * operations / cost.seconds() / peak,
                    mib(cost.workspaceBytes()),
                    mib(cost.requestBytes()),
                    mib(cost.hostBytes()))));
    return table.toString();
  }

  /** A GPU's times need more digits than a CPU's. */
  private static String seconds(double seconds) {
    return String.format(Locale.ROOT, seconds < 1 ? "%.4f" : "%.2f", seconds);
  }

  private static String mib(long bytes) {
    return String.format(Locale.ROOT, "%.1f", bytes / 1048576.0);
  }
}
