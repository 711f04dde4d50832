package dev.halcyon.engine.disagg.server;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.management.ThreadMXBean;
import dev.halcyon.engine.disagg.codec.LogitsCodec;
import dev.halcyon.engine.disagg.codec.LogitsTensor;
import dev.halcyon.engine.disagg.codec.WireType;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.junit.jupiter.api.Test;

class JsonTest {

  /** Wherever buffers end that characters go through. */
  @Test
  void textsBecomeUtf8AndLoneSurrogatesQuestionMarks() {
    Random random = new Random(3);
    for (int length = 0; length < 20_000; length += 1 + random.nextInt(60)) {
      StringBuilder text = new StringBuilder(length + 1);
      while (text.length() < length) {
        switch (random.nextInt(6)) {
          case 0 -> text.append((char) (0xd800 + random.nextInt(0x800)));
          case 1 -> text.appendCodePoint(0x10000 + random.nextInt(0x100000));
          case 2 -> text.append((char) random.nextInt(0xd800));
          default -> text.append((char) random.nextInt(0x80));
        }
      }
      ObjectNode node = Json.object().put("text", text.toString());
      assertThat(Json.bytes(node)).isEqualTo(node.toString().getBytes(StandardCharsets.UTF_8));
    }
  }

  /**
   * Of n bytes of logits: those, 4/3 n of base64 in parts, and once more in one. Their room on a
   * server is reckoned with that.
   */
  @Test
  void logitsAreCopiedNoMoreOftenThanIsSaid() {
    int rows = 20;
    int vocabSize = 50_000;
    LogitsTensor tensor =
        LogitsTensor.of(
            WireType.FLOAT32, new int[] {rows, vocabSize}, new byte[4 * rows * vocabSize]);
    LogitsCodec codec = new LogitsCodec(vocabSize, LogitsCodec.MAX_BYTES);
    Json.bytes(Json.object().set("small", Json.array()));
    long thread = Thread.currentThread().getId();
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long before = threads.getThreadAllocatedBytes(thread);
    byte[] written =
        Json.bytes(
            Json.object()
                .set("logits", codec.toJson(LogitsTensor.of(tensor.view(), tensor.type()))));
    double allocated = threads.getThreadAllocatedBytes(thread) - before;
    assertThat(written.length).isGreaterThan(4 * rows * vocabSize * 4 / 3);
    assertThat(allocated / (4 * rows * vocabSize)).isBetween(3.6, 3.9);
  }
}
