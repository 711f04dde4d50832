package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvTransport;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Keys and values of a prompt that is computed are read by other threads in the midst of steps: no
 * step ends here before all that it wrote has been read.
 */
@Timeout(60)
public class LayersLeaveTest {

  private static final int TOKENS = 40;

  /** What the engine computes on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  /** Reads what there is, as soon as it is said to be there, on threads of its own. */
  private static final class Reader implements KvTransport {

    private final ExecutorService threads = Executors.newFixedThreadPool(2);

    /** What came of each piece. */
    private final Map<KvPiece, CompletableFuture<ByteBuffer>> pieces = new LinkedHashMap<>();

    private KvSource source;

    /** By layer, how many tokens were asked for. */
    private int[] asked;

    @Override
    public synchronized KvOffer offer(KvSource offered) {
      source = offered;
      asked = new int[offered.manifest().layout().layers()];
      return new KvOffer() {
        @Override
        public KvDescriptor descriptor() {
          return new KvDescriptor(new byte[1]);
        }

        @Override
        public void advanced() {
          readMore();
        }

        @Override
        public void withdraw(KvTransferException why) {}
      };
    }

    private synchronized void readMore() {
      KvProgress progress = source.progress();
      for (int layer = 0; layer < asked.length; layer++) {
        int count = progress.tokens(layer) - asked[layer];
        if (count > 0) {
          KvPiece piece = new KvPiece(layer, asked[layer], count);
          asked[layer] += count;
          pieces.put(
              piece, CompletableFuture.supplyAsync(() -> piece, threads).thenCompose(this::read));
        }
      }
      notifyAll();
    }

    CompletableFuture<ByteBuffer> read(KvPiece piece) {
      CompletableFuture<ByteBuffer> result = new CompletableFuture<>();
      ByteBuffer to = ByteBuffer.allocate((int) piece.bytes(source.manifest().layout()));
      source.read(
          piece,
          to,
          error -> {
            if (error == null) {
              result.complete(to.flip());
            } else {
              result.completeExceptionally(error);
            }
          });
      return result;
    }

    /** Waits until so many tokens of each layer were read. */
    void await(int tokens) throws Exception {
      Map<KvPiece, CompletableFuture<ByteBuffer>> all;
      synchronized (this) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (asked[asked.length - 1] < tokens) {
          long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
          if (left <= 0) {
            throw new IllegalStateException(
                asked[asked.length - 1] + " of " + tokens + " tokens could be read");
          }
          wait(left);
        }
        all = Map.copyOf(pieces);
      }
      for (CompletableFuture<ByteBuffer> piece : all.values()) {
        piece.get(20, TimeUnit.SECONDS);
      }
    }

    @Override
    public KvFetch fetch(KvDescriptor descriptor, KvSink sink) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void close() {
      threads.shutdown();
    }
  }

  @ParameterizedTest(name = "{0} tokens a step")
  @ValueSource(ints = {64, 16})
  void whatAStepWritesIsReadBeforeItEnds(int maxBatchTokens, @TempDir Path directory) {
    Path checkpoint = TinyCheckpoint.write(directory);
    try (Reader reader = new Reader();
        ContextRig rig =
            new ContextRig(
                ContextRig.options(
                    ContextRig.engine(backend(), checkpoint, maxBatchTokens)
                        .kvTransport(reader)))) {
      int[] computed = {0};
      rig.backend.fault(
          (operation, purpose, bytes) -> {
            if (operation.equals("upload")) {
              computed[0] = Math.min(TOKENS, computed[0] + maxBatchTokens);
            } else if (operation.equals("sample") || operation.equals("synchronize")) {
              await(reader, computed[0]);
            }
          });
      GenerationRequest request =
          ContextRig.request(TOKENS, ContextRig.greedy().maxTokens(1).build()).toBuilder()
              .disaggParams(DisaggParams.contextOnly("r", ScheduleStyle.GENERATION_FIRST))
              .build();
      try (GenerationResult result = rig.submit(request).await()) {
        assertThat(result.outputs().get(0).tokenIds()).hasSize(1);
        assertThat(computed[0]).isEqualTo(TOKENS);
        int steps = (TOKENS + maxBatchTokens - 1) / maxBatchTokens;
        assertThat(reader.pieces).hasSize(steps * reader.asked.length);
        // The pin has the same.
        reader.pieces.forEach(
            (piece, bytes) -> {
              assertThat(bytes.join().remaining()).as("%s", piece).isPositive();
              assertThat(reader.read(piece).join()).as("%s", piece).isEqualTo(bytes.join());
            });
      }
      reader.source.end(null);
    }
  }

  private static void await(Reader reader, int tokens) {
    if (tokens > 0) {
      try {
        reader.await(tokens);
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }
  }
}
