package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.logits.DeviceBuffer;
import java.io.PrintWriter;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * Measures the attention of decode steps on a GPU: the keys and values that a call reads over its
 * time, beside the rate of a copy within the device's memory in the same run.
 */
@Command(
    name = "attention-benchmark",
    mixinStandardHelpOptions = true,
    sortOptions = false,
    description = "Measures the CUDA backend's attention in decode steps, BF16.")
public final class AttentionBenchmark implements Callable<Integer> {

  private static final String BACKEND = "cuda";
  private static final int FILL_ROWS = 2048;

  /** Several times what a device's cache holds, so that no call finds its keys there. */
  private static final long LEAST_BYTES = 512L << 20;

  private static final int MAX_LAYERS = 64;
  private static final long SEED = 1;

  @Spec private CommandSpec spec;

  @Option(
      names = "--sequences",
      paramLabel = "N",
      split = ",",
      description = "sequences of a step (default: 1,8,32)")
  private List<Integer> sequences = List.of(1, 8, 32);

  @Option(
      names = "--context",
      paramLabel = "N",
      split = ",",
      description = "tokens of each sequence (default: 1024,8192)")
  private List<Integer> contexts = List.of(1024, 8192);

  @Option(names = "--query-heads", paramLabel = "N", description = "default: ${DEFAULT-VALUE}")
  private int queryHeads = 32;

  @Option(names = "--kv-heads", paramLabel = "N", description = "default: ${DEFAULT-VALUE}")
  private int kvHeads = 8;

  @Option(names = "--head-dim", paramLabel = "N", description = "default: ${DEFAULT-VALUE}")
  private int headDim = 128;

  @Option(names = "--block-size", paramLabel = "N", description = "default: ${DEFAULT-VALUE}")
  private int blockSize = 16;

  @Option(
      names = "--runs",
      paramLabel = "N",
      description = "passes over all layers, of which the best counts (default: ${DEFAULT-VALUE})")
  private int runs = 5;

  @Option(
      names = "--device",
      paramLabel = "N",
      description = "which GPU, from 0 (default: ${DEFAULT-VALUE})")
  private int device;

  public static void main(String[] args) {
    System.exit(new CommandLine(new AttentionBenchmark()).execute(args));
  }

  @Override
  public Integer call() {
    PrintWriter out = spec.commandLine().getOut();
    double limit = DeviceLimits.measure(BACKEND, device).memoryBytes();
    out.printf(
        Locale.ROOT,
        "%d query heads, %d KV heads of %d; a copy reads and writes %.2f TB/s%n%n",
        queryHeads,
        kvHeads,
        headDim,
        limit / 1e12);
    out.println("| sequences | context | us a layer | TB/s read | of the copy's |");
    out.println("|---:|---:|---:|---:|---:|");
    for (int count : sequences) {
      for (int context : contexts) {
        long bytes = 2L * DType.BF16.bytes() * count * context * kvHeads * headDim;
        double seconds = seconds(count, context, bytes);
        out.printf(
            Locale.ROOT,
            "| %d | %d | %.1f | %.2f | %.0f %% |%n",
            count,
            context,
            seconds * 1e6,
            bytes / seconds / 1e12,
            100 * bytes / seconds / limit);
        out.flush();
      }
    }
    return 0;
  }

  /** The time of one layer's attention. */
  private double seconds(int count, int context, long bytes) {
    int layers = (int) Math.min(MAX_LAYERS, (LEAST_BYTES + bytes - 1) / bytes);
    int blocks = (context + blockSize - 1) / blockSize;
    // Room for what one step of filling takes, too.
    int all = Math.max(count * blocks, (FILL_ROWS + blockSize - 1) / blockSize);
    KvShape shape = new KvShape(layers, all, blockSize, kvHeads, headDim);
    AttentionSpec attention =
        new AttentionSpec(queryHeads, kvHeads, headDim, (float) (1 / Math.sqrt(headDim)), 0, 0);
    long memory = all * shape.blockBytes(DType.BF16.bytes()) + (4L << 30);
    BackendOptions options =
        new BackendOptions(1, memory, 1 << 20, device, DTypeChoice.BF16, DType.BF16);
    try (Backend backend = BackendSelector.onClassPath().open(BACKEND, options);
        KvStorage kv = backend.allocateKv(shape)) {
      fill(backend, kv, attention);
      int outCols = queryHeads * headDim;
      try (DeviceBuffer qkv = RandomRows.of(backend, count, attention.packedCols(), SEED);
          DeviceBuffer out =
              backend.memory().allocate(backend.activationBytes(count, outCols), "a result")) {
        DeviceBatch batch = backend.upload(step(count, context, blocks));
        return best(
                backend, layers, layer -> backend.attention(batch, qkv, attention, kv, layer, out))
            / layers;
      }
    }
  }

  /** Gives every slot a random key and value: zeros would cost less power, and show more speed. */
  private static void fill(Backend backend, KvStorage kv, AttentionSpec attention) {
    KvShape shape = kv.shape();
    int slots = shape.blocks() * shape.blockSize();
    int[] positions = IntStream.range(0, FILL_ROWS).toArray();
    int[][] table = {IntStream.range(0, shape.blocks()).toArray()};
    try (DeviceBuffer rows = RandomRows.of(backend, FILL_ROWS, attention.packedCols(), SEED + 1)) {
      for (int first = 0; first < slots; first += FILL_ROWS) {
        int count = Math.min(FILL_ROWS, slots - first);
        DeviceBatch batch =
            backend.upload(
                new Batch(
                    count,
                    positions,
                    positions,
                    IntStream.range(first, first + count).toArray(),
                    1,
                    new int[] {0, count},
                    new int[] {count},
                    table));
        for (int layer = 0; layer < shape.layers(); layer++) {
          backend.ropeAndWriteKv(batch, rows, attention, null, kv, layer);
        }
      }
      backend.synchronize();
    }
  }

  /** A decode step; neighbouring blocks of a sequence are far apart in the cache. */
  private static Batch step(int count, int context, int blocks) {
    int[] zeros = new int[count];
    int[] positions = new int[count];
    Arrays.fill(positions, context - 1);
    int[] slots = new int[count];
    Arrays.fill(slots, -1);
    int[] contexts = new int[count];
    Arrays.fill(contexts, context);
    int[][] tables = new int[count][blocks];
    for (int s = 0; s < count; s++) {
      for (int b = 0; b < blocks; b++) {
        tables[s][b] = b * count + s;
      }
    }
    return new Batch(
        count,
        zeros,
        positions,
        slots,
        count,
        IntStream.rangeClosed(0, count).toArray(),
        contexts,
        tables);
  }

  /** Something done for each layer. */
  private interface LayerAction {
    void run(int layer);
  }

  private double best(Backend backend, int layers, LayerAction action) {
    double best = Double.MAX_VALUE;
    for (int run = 0; run <= runs; run++) {
      backend.synchronize();
      long start = System.nanoTime();
      for (int layer = 0; layer < layers; layer++) {
        action.run(layer);
      }
      backend.synchronize();
      if (run > 0) {
        best = Math.min(best, (System.nanoTime() - start) / 1e9);
      }
    }
    return best;
  }
}
