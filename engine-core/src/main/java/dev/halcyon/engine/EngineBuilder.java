package dev.halcyon.engine;

import dev.halcyon.engine.transfer.KvTransport;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;

/**
 * Opens an {@link Engine}. Every option has a default but the model. Setters throw {@link
 * IllegalArgumentException} for values that can never be right.
 */
public final class EngineBuilder {

  private Path model;
  private boolean defaultModel;
  private BackendChoice backend = BackendChoice.AUTO;
  private int deviceIndex;
  private DTypeChoice dtype = DTypeChoice.AUTO;
  private boolean deviceGraphs = true;
  private boolean deterministic;
  private int threads = Runtime.getRuntime().availableProcessors();
  private long deviceMemoryBytes;
  private long hostMemoryBytes;
  private int maxBatchSize = 16;
  private int maxBatchTokens = 1024;
  private boolean chunkedPrefill = true;
  private CapacityPolicy capacityPolicy = CapacityPolicy.GUARANTEED_NO_EVICT;
  private int kvBlockSize = 16;
  private double kvCacheFraction = 0.9;
  private Integer kvCacheTokens;
  private boolean prefixReuse = true;
  private int maxQueuedRequests = 1024;
  private QueueFullPolicy queueFullPolicy = QueueFullPolicy.FAIL;
  private Integer maxSequenceLength;
  private CloseMode closeMode = CloseMode.ABORT;
  private boolean integrityChecks;
  private LoadListener progressListener = (done, total) -> {};
  private KvTransport kvTransport;
  private Duration kvTransferTimeout = Duration.ofSeconds(30);

  EngineBuilder() {}

  /** The directory of a Hugging Face checkpoint. */
  public EngineBuilder model(Path directory) {
    this.model = Objects.requireNonNull(directory, "model");
    this.defaultModel = false;
    return this;
  }

  /** The small model inside this library, which writes short stories in simple English. */
  public EngineBuilder defaultModel() {
    this.model = null;
    this.defaultModel = true;
    return this;
  }

  /** What to compute on. Default: AUTO. */
  public EngineBuilder backend(BackendChoice backend) {
    this.backend = Objects.requireNonNull(backend, "backend");
    return this;
  }

  /** Which GPU, from 0. Default: 0. Of no meaning on the CPU. */
  public EngineBuilder deviceIndex(int deviceIndex) {
    this.deviceIndex = atLeast(0, deviceIndex, "deviceIndex");
    return this;
  }

  /**
   * The type of activations and of the KV cache. Default: AUTO, the checkpoint's own on a GPU. The
   * CPU computes in float32 and refuses the half-precision types.
   */
  public EngineBuilder dtype(DTypeChoice dtype) {
    this.dtype = Objects.requireNonNull(dtype, "dtype");
    return this;
  }

  /**
   * Whether a GPU repeats recorded steps (CUDA graphs) where each sequence computes one token,
   * which saves the time of starting every operation anew. Results are the same bit for bit with
   * and without. Default: true. Of no meaning on the CPU.
   */
  public EngineBuilder deviceGraphs(boolean deviceGraphs) {
    this.deviceGraphs = deviceGraphs;
    return this;
  }

  /**
   * Whether each engine with these options on this kind of device rounds as the others do. By
   * default a GPU chooses the algorithms of its matrix products by their time when the engine
   * opens: results are then the same from request to request of one engine, as far as batches of
   * the same size are, but those of the next engine may differ in rounding, and so, rarely, in a
   * greedy token. With this option the library's first choice is taken untimed: slower steps, by a
   * few per cent as a rule, and a faster start. Default: false. Of no meaning on the CPU.
   */
  public EngineBuilder deterministic(boolean deterministic) {
    this.deterministic = deterministic;
    return this;
  }

  /** Threads for computing on the CPU, the engine's own included. Default: all processors. */
  public EngineBuilder threads(int threads) {
    this.threads = atLeast(1, threads, "threads");
    return this;
  }

  /**
   * Bytes of device memory that the engine may hold: activations, logits and the KV cache; on a GPU
   * the weights too. On the CPU weights are mapped files and not counted. Default: 0, half of the
   * machine's memory on the CPU.
   */
  public EngineBuilder deviceMemoryBytes(long bytes) {
    this.deviceMemoryBytes = notNegative(bytes, "deviceMemoryBytes");
    return this;
  }

  /**
   * Bytes of host memory, outside of the Java heap, for context logits that the device has no room
   * for; a request that finds no room there either fails alone. Results hold it until they are
   * closed, after the engine's own close too. Nothing is reserved in advance, but for one row of
   * logits on a GPU that computes in 16 bits, which the engine does without where there is no room.
   * Default: 0, a quarter of the machine's memory.
   */
  public EngineBuilder hostMemoryBytes(long bytes) {
    this.hostMemoryBytes = notNegative(bytes, "hostMemoryBytes");
    return this;
  }

  /** Sequences that are computed together. Default: 16. */
  public EngineBuilder maxBatchSize(int maxBatchSize) {
    this.maxBatchSize = atLeast(1, maxBatchSize, "maxBatchSize");
    return this;
  }

  /**
   * Tokens that one step computes at most, at least maxBatchSize. Longer prompts are computed in
   * chunks. Smaller values make streams smoother while prompts are computed, larger ones prompts
   * faster; memory for activations is in proportion. Default: 1024.
   */
  public EngineBuilder maxBatchTokens(int maxBatchTokens) {
    this.maxBatchTokens = atLeast(1, maxBatchTokens, "maxBatchTokens");
    return this;
  }

  /**
   * Whether a prompt may be computed over several steps. Without, prompts longer than
   * maxBatchTokens are refused. Default: true.
   */
  public EngineBuilder chunkedPrefill(boolean chunkedPrefill) {
    this.chunkedPrefill = chunkedPrefill;
    return this;
  }

  /** When a request is let in. Default: GUARANTEED_NO_EVICT. */
  public EngineBuilder capacityPolicy(CapacityPolicy capacityPolicy) {
    this.capacityPolicy = Objects.requireNonNull(capacityPolicy, "capacityPolicy");
    return this;
  }

  /** Tokens in a block of the KV cache, a power of two. Default: 16. */
  public EngineBuilder kvBlockSize(int kvBlockSize) {
    if (kvBlockSize < 1 || Integer.bitCount(kvBlockSize) != 1) {
      throw new IllegalArgumentException("kvBlockSize must be a power of two, got " + kvBlockSize);
    }
    this.kvBlockSize = kvBlockSize;
    return this;
  }

  /**
   * The part of the device memory left after all else that the KV cache takes, in (0, 1]; it takes
   * no more than maxBatchSize sequences of the longest length can use. Default: 0.9.
   */
  public EngineBuilder kvCacheFraction(double fraction) {
    if (!(fraction > 0 && fraction <= 1)) {
      throw new IllegalArgumentException("kvCacheFraction must be in (0, 1], got " + fraction);
    }
    this.kvCacheFraction = fraction;
    return this;
  }

  /** Tokens that the KV cache holds, in place of kvCacheFraction. Default: not set. */
  public EngineBuilder kvCacheTokens(int tokens) {
    this.kvCacheTokens = atLeast(1, tokens, "kvCacheTokens");
    return this;
  }

  /** Whether prompts reuse cached blocks of equal beginnings. Default: true. */
  public EngineBuilder prefixReuse(boolean prefixReuse) {
    this.prefixReuse = prefixReuse;
    return this;
  }

  /** Requests that may wait for their first turn. Default: 1024. */
  public EngineBuilder maxQueuedRequests(int maxQueuedRequests) {
    this.maxQueuedRequests = atLeast(1, maxQueuedRequests, "maxQueuedRequests");
    return this;
  }

  /** What submit does when that many wait. Default: FAIL. */
  public EngineBuilder queueFullPolicy(QueueFullPolicy queueFullPolicy) {
    this.queueFullPolicy = Objects.requireNonNull(queueFullPolicy, "queueFullPolicy");
    return this;
  }

  /**
   * Tokens of prompt and output together. Default: the model's own limit, which it can't exceed.
   */
  public EngineBuilder maxSequenceLength(int maxSequenceLength) {
    this.maxSequenceLength = atLeast(2, maxSequenceLength, "maxSequenceLength");
    return this;
  }

  /** What close does with requests that have not ended. Default: ABORT. */
  public EngineBuilder closeMode(CloseMode closeMode) {
    this.closeMode = Objects.requireNonNull(closeMode, "closeMode");
    return this;
  }

  /**
   * Whether the KV cache's books are checked whenever the engine is idle, for tests and diagnosis;
   * an error found fails the engine. Default: false.
   */
  public EngineBuilder integrityChecks(boolean integrityChecks) {
    this.integrityChecks = integrityChecks;
    return this;
  }

  /** Told how far loading has come. Default: nobody. */
  public EngineBuilder progressListener(LoadListener listener) {
    this.progressListener = Objects.requireNonNull(listener, "progressListener");
    return this;
  }

  /**
   * How prompts get to other engines and from them, for {@linkplain DisaggParams split requests}.
   * The transport stays the caller's: close it after the engine. Default: null, split requests are
   * refused.
   */
  public EngineBuilder kvTransport(KvTransport transport) {
    this.kvTransport = transport;
    return this;
  }

  /**
   * How long the transfer of a prompt may make no progress, here and there: a computed prompt that
   * is not fetched gives its blocks back, a request whose prompt does not come fails. Default: 30
   * seconds.
   *
   * @throws IllegalArgumentException if it is not positive, or more than a day
   */
  public EngineBuilder kvTransferTimeout(Duration timeout) {
    if (timeout.isZero() || timeout.isNegative() || timeout.compareTo(Duration.ofDays(1)) > 0) {
      throw new IllegalArgumentException(
          "kvTransferTimeout must be positive and at most a day, got " + timeout);
    }
    this.kvTransferTimeout = timeout;
    return this;
  }

  /**
   * Opens the engine. Nothing stays allocated if that fails.
   *
   * @throws ModelLoadException if the checkpoint is damaged, or not one that the engine can run
   * @throws EngineException if the backend asked for is not usable, or memory is not enough
   * @throws IllegalArgumentException if options contradict one another, or no model was named
   */
  public Engine build() {
    return Engine.open(options());
  }

  /** What the engine will be opened with, if that makes sense. */
  EngineOptions options() {
    if (model == null && !defaultModel) {
      throw new IllegalArgumentException("no model: call model(directory) or defaultModel()");
    }
    if (maxBatchTokens < maxBatchSize) {
      throw new IllegalArgumentException(
          "maxBatchTokens " + maxBatchTokens + " must be at least maxBatchSize " + maxBatchSize);
    }
    return new EngineOptions(
        model,
        backend,
        deviceIndex,
        dtype,
        deviceGraphs,
        deterministic,
        threads,
        deviceMemoryBytes,
        hostMemoryBytes,
        maxBatchSize,
        maxBatchTokens,
        chunkedPrefill,
        capacityPolicy,
        kvBlockSize,
        kvCacheFraction,
        kvCacheTokens,
        prefixReuse,
        maxQueuedRequests,
        queueFullPolicy,
        maxSequenceLength,
        closeMode,
        integrityChecks,
        progressListener,
        kvTransport,
        kvTransferTimeout);
  }

  private static int atLeast(int least, int value, String name) {
    if (value < least) {
      throw new IllegalArgumentException(name + " must be at least " + least + ", got " + value);
    }
    return value;
  }

  private static long notNegative(long value, String name) {
    if (value < 0) {
      throw new IllegalArgumentException(name + " must not be negative, got " + value);
    }
    return value;
  }
}
