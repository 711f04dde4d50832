package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class BenchmarkTableTest {

  @Test
  void showsWhatWasReachedBesideTheLimitAndThePeers() {
    // One layer: 64 x 64 twice, 32 x 64 twice, 64 x 64 three times = 24,576 elements, and a head of
    // 512 x 64 = 32,768: 57,344 elements of 2 bytes = 114,688 bytes a step.
    ModelShape shape = new ModelShape(64, 64, 1, 4, 2, 512);
    Workload workload = new Workload(16, 64, List.of(1, 4), 128);
    PeerResult peer = new PeerResult("Other", "1.2", "its setting", Map.of(1, 25.0), 300.0, null);
    // At 11.4688 MB/s the limit is 100 steps a second: 100 and 400 tokens. Prefill: 2 x (128 x
    // 24,576 + 32,768) = 6,356,992 operations for 128 tokens, 49,664 a token; at 49.664 MFLOP/s
    // the limit is 1,000 tokens a second.
    String table =
        new BenchmarkTable(shape, workload, List.of(peer))
            .render(11_468_800, 49_664_000, Map.of(1, 80.0, 4, 200.0), 600);

    assertThat(table)
        .isEqualTo(
            """
            |  | Halcyon | limit | of the limit | Other 1.2 |
            |---|---:|---:|---:|---:|
            | stream read, GB/s |  | 0.0 |  |  |
            | OpenBLAS sgemm, GFLOP/s |  | 0.0 |  |  |
            | decode, batch 1, tokens/s | 80.0 | 100 | 80 % | 25.0 |
            | decode, batch 4, tokens/s | 200 | 400 | 50 % | n/a |
            | prefill, 128 tokens, tokens/s | 600 | 1000 | 60 % | 300 |
            """);
  }
}
