package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.backend.KvRange;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CopyPartsTest {

  private static List<KvRange> all(CopyParts parts) {
    List<KvRange> all = new ArrayList<>();
    for (KvRange part = parts.next(); part != null; part = parts.next()) {
      all.add(part);
    }
    assertThat(parts.next()).isNull();
    return all;
  }

  /** 10 tokens of 100 bytes: 1000 bytes a layer, so two layers at once. */
  @Test
  void smallLayersGoTogether() {
    assertThat(all(new CopyParts(0, 10, 5, 16, 100, 2500)))
        .containsExactly(
            new KvRange(0, 2, 0, 10), new KvRange(2, 2, 0, 10), new KvRange(4, 1, 0, 10));
  }

  /** 25 tokens at once; from 5 on that is up to 30, and blocks of 16 end at 16 and 32. */
  @Test
  void largeLayersAreCutWhereBlocksEnd() {
    assertThat(all(new CopyParts(5, 70, 2, 16, 100, 2500)))
        .containsExactly(
            new KvRange(0, 1, 5, 11),
            new KvRange(0, 1, 16, 16),
            new KvRange(0, 1, 32, 16),
            new KvRange(0, 1, 48, 22),
            new KvRange(1, 1, 5, 11),
            new KvRange(1, 1, 16, 16),
            new KvRange(1, 1, 32, 16),
            new KvRange(1, 1, 48, 22));
  }

  @ParameterizedTest
  @CsvSource({
    "0, 1, 1, 16, 8, 1",
    "0, 100, 3, 16, 100, 150",
    "48, 1000, 7, 16, 64, 4096",
    "17, 1000, 4, 32, 64, 100000000",
    "999, 1000, 2, 16, 1000000, 10"
  })
  void everyTokenOfEveryLayerComesOnce(
      int first, int end, int layers, int blockSize, int tokenBytes, long partBytes) {
    int[][] seen = new int[layers][end];
    for (KvRange part : all(new CopyParts(first, end, layers, blockSize, tokenBytes, partBytes))) {
      assertThat((long) part.layers() * part.count() * tokenBytes)
          .isLessThanOrEqualTo(Math.max(partBytes, tokenBytes));
      for (int layer = part.firstLayer(); layer < part.firstLayer() + part.layers(); layer++) {
        for (int token = part.firstToken(); token < part.firstToken() + part.count(); token++) {
          seen[layer][token]++;
        }
      }
    }
    for (int[] layer : seen) {
      for (int token = 0; token < end; token++) {
        assertThat(layer[token]).as("token %d", token).isEqualTo(token < first ? 0 : 1);
      }
    }
  }
}
