package dev.halcyon.engine.benchmarks;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * The benchmark's numbers as a Markdown table: what was reached, the machine's limit, the peers.
 */
final class BenchmarkTable {

  private static final String NONE = "n/a";

  private final ModelShape shape;
  private final Workload workload;
  private final List<PeerResult> peers;
  private final List<List<String>> rows = new ArrayList<>();

  BenchmarkTable(ModelShape shape, Workload workload, List<PeerResult> peers) {
    this.shape = shape;
    this.workload = workload;
    this.peers = List.copyOf(peers);
    List<String> header = new ArrayList<>(List.of("", "Halcyon", "limit", "of the limit"));
    peers.forEach(peer -> header.add(peer.peer() + " " + peer.version()));
    rows.add(header);
  }

  /**
   * Renders the table.
   *
   * @param bandwidth bytes a second
   * @param sgemmPeak floating-point operations a second
   * @param decode tokens a second by batch
   * @param prefill prompt tokens a second
   */
  String render(double bandwidth, double sgemmPeak, Map<Integer, Double> decode, double prefill) {
    row("stream read, GB/s", null, number(bandwidth / 1e9), null, peer -> null);
    row("OpenBLAS sgemm, GFLOP/s", null, number(sgemmPeak / 1e9), null, peer -> null);
    for (int batch : workload.batches()) {
      double limit = batch * bandwidth / shape.decodeBytes();
      rate(
          "decode, batch " + batch + ", tokens/s",
          decode.get(batch),
          limit,
          peer -> peer.decode().get(batch));
    }
    double perToken = shape.prefillOperations(workload.prefillTokens()) / workload.prefillTokens();
    rate(
        "prefill, " + workload.prefillTokens() + " tokens, tokens/s",
        prefill,
        sgemmPeak / perToken,
        PeerResult::prefill);
    return markdown();
  }

  private interface PeerValue {
    Double of(PeerResult peer);
  }

  private void rate(String name, double reached, double limit, PeerValue peerValue) {
    String share = String.format(Locale.ROOT, "%.0f %%", 100 * reached / limit);
    row(name, reached, number(limit), share, peerValue);
  }

  private void row(String name, Double reached, String limit, String share, PeerValue peerValue) {
    List<String> cells = new ArrayList<>();
    cells.add(name);
    cells.add(reached == null ? "" : number(reached));
    cells.add(limit);
    cells.add(share == null ? "" : share);
    boolean compared = reached != null;
    for (PeerResult peer : peers) {
      Double value = peerValue.of(peer);
      String missing = compared ? NONE : "";
      cells.add(value == null ? missing : number(value));
    }
    rows.add(cells);
  }

  private static String number(double value) {
    return String.format(Locale.ROOT, value < 100 ? "%.1f" : "%.0f", value);
  }

  private String markdown() {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < rows.size(); i++) {
      text.append("| ").append(String.join(" | ", rows.get(i))).append(" |\n");
      if (i == 0) {
        text.append("|---").append("|---:".repeat(rows.get(0).size() - 1)).append("|\n");
      }
    }
    return text.toString();
  }
}
