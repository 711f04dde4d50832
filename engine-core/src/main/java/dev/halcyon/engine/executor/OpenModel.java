package dev.halcyon.engine.executor;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineOptions;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.kvcache.KvCacheManager;
import dev.halcyon.engine.logits.BatchDescription;
import dev.halcyon.engine.logits.ContextLogitsPlan;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.logits.RankGroup;
import dev.halcyon.engine.model.Decoder;
import dev.halcyon.engine.model.DecoderOptions;
import dev.halcyon.engine.model.GenerationDefaults;
import dev.halcyon.engine.model.ModelConfig;
import dev.halcyon.engine.model.ModelLoader;
import dev.halcyon.engine.tokenizer.ChatTemplate;
import dev.halcyon.engine.tokenizer.HuggingFaceTokenizer;
import dev.halcyon.engine.tokenizer.Tokenizer;
import dev.halcyon.engine.tokenizer.TokenizerConfig;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.weights.Checkpoint;
import dev.halcyon.engine.weights.CheckpointFingerprint;
import dev.halcyon.engine.weights.ModelFiles;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Opens a checkpoint and puts together all that runs it. */
public final class OpenModel {

  private static final Logger LOG = LoggerFactory.getLogger(OpenModel.class);
  private static final String DEFAULT_MODEL = "dev/halcyon/engine/default-model/";

  private final GenerationExecutor executor;
  private final Tokenizer tokenizer;
  private final ChatTemplate chatTemplate;
  private final int vocabSize;
  private final int maxSequenceLength;
  private final String backendName;

  private OpenModel(
      GenerationExecutor executor,
      Tokenizer tokenizer,
      ChatTemplate chatTemplate,
      int vocabSize,
      int maxSequenceLength,
      String backendName) {
    this.executor = executor;
    this.tokenizer = tokenizer;
    this.chatTemplate = chatTemplate;
    this.vocabSize = vocabSize;
    this.maxSequenceLength = maxSequenceLength;
    this.backendName = backendName;
  }

  /** Opens a checkpoint. Whatever was opened is closed again if a later step fails. */
  public static OpenModel open(EngineOptions options) {
    return open(options, BackendSelector.onClassPath());
  }

  /** Opens a checkpoint on one of {@code backends}. */
  static OpenModel open(EngineOptions options, BackendSelector backends) {
    return open(options, backends, chunks -> BatchDescription.PLAIN);
  }

  /**
   * Opens a checkpoint.
   *
   * @param describe says of a step what bears on how its context rows are projected
   */
  static OpenModel open(
      EngineOptions options,
      BackendSelector backends,
      Function<List<Chunk>, BatchDescription> describe) {
    Owned owned = new Owned();
    try {
      return new Assembly(options, backends, describe, owned).open();
    } catch (OutOfDeviceMemoryException e) {
      owned.closeAfter(e);
      throw new EngineException("The engine does not fit into its memory: " + e.getMessage(), e);
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  public GenerationExecutor executor() {
    return executor;
  }

  /** Empty if the checkpoint has none. */
  public Optional<Tokenizer> tokenizer() {
    return Optional.ofNullable(tokenizer);
  }

  /** Empty if the checkpoint has none. */
  public Optional<ChatTemplate> chatTemplate() {
    return Optional.ofNullable(chatTemplate);
  }

  public int vocabSize() {
    return vocabSize;
  }

  public int maxSequenceLength() {
    return maxSequenceLength;
  }

  public String backendName() {
    return backendName;
  }

  /** The steps of opening, in their order. */
  private static final class Assembly {

    private final EngineOptions options;
    private final BackendSelector backends;
    private final Function<List<Chunk>, BatchDescription> describe;
    private final Owned owned;

    Assembly(
        EngineOptions options,
        BackendSelector backends,
        Function<List<Chunk>, BatchDescription> describe,
        Owned owned) {
      this.options = options;
      this.backends = backends;
      this.describe = describe;
      this.owned = owned;
    }

    OpenModel open() {
      ModelFiles files =
          options.model() == null
              ? ModelFiles.resources(OpenModel.class.getClassLoader(), DEFAULT_MODEL)
              : ModelFiles.directory(options.model());
      ModelConfig config = ModelConfig.parse(files);
      GenerationDefaults defaults = GenerationDefaults.parse(files, config);
      TokenizerConfig tokenizerConfig = TokenizerConfig.read(files);
      Tokenizer tokenizer = openTokenizer(files, tokenizerConfig, config);
      ChatTemplate chat =
          tokenizerConfig
              .chatTemplate()
              .map(text -> ChatTemplate.parse(text, tokenizerConfig))
              .orElse(null);
      int length = sequenceLength(config);
      Checkpoint checkpoint = Checkpoint.open(files);
      Backend backend = openBackend(checkpoint.weightType());
      owned.add(backend::close);
      Decoder decoder = loadModel(checkpoint, config, backend, length);
      ContextLogitsPlan plan = reserveLogits(decoder, backend);
      MemoryBooks memory = new MemoryBooks(backend.memory(), decoder.weightBytes());
      KvStorage kv = allocateKv(config, backend, length);
      owned.add(kv::close);
      memory.kvCacheAllocated();
      ModelRunner runner = warmRunner(backend, decoder, kv, plan, length);
      TransferParts transfers = transfers(files, checkpoint, backend, kv);
      RequestFactory requests = requests(config, defaults, tokenizer, length, transfers != null);
      LOG.info(
          "Opened {} ({}) on the {} backend: sequences of up to {} tokens, {} KV blocks of {} tokens",
          files.description(),
          config.architecture(),
          backend.name(),
          length,
          kv.shape().blocks(),
          kv.shape().blockSize());
      return new OpenModel(
          startExecutor(backend, runner, kv, plan, requests, memory, transfers),
          tokenizer,
          chat,
          config.vocabSize(),
          length,
          backend.name());
    }

    /** A checkpoint without tokenizer.json runs on token ids alone. */
    private Tokenizer openTokenizer(
        ModelFiles files, TokenizerConfig tokenizerConfig, ModelConfig config) {
      if (!files.has(HuggingFaceTokenizer.FILE)) {
        return null;
      }
      Tokenizer tokenizer = HuggingFaceTokenizer.open(files, tokenizerConfig);
      owned.add(tokenizer::close);
      tokenizer.requireFits(config.vocabSize());
      return tokenizer;
    }

    private int sequenceLength(ModelConfig config) {
      Integer asked = options.maxSequenceLength();
      int limit = config.contextLength();
      if (asked != null && asked > limit) {
        throw new IllegalArgumentException(
            "maxSequenceLength " + asked + " exceeds the model's limit of " + limit);
      }
      return asked == null ? limit : asked;
    }

    private Backend openBackend(DType modelType) {
      BackendOptions backendOptions =
          new BackendOptions(
              options.threads(),
              options.deviceMemoryBytes(),
              options.hostMemoryBytes(),
              options.deviceIndex(),
              options.dtype(),
              modelType,
              options.deviceGraphs(),
              options.deterministic());
      return options.backend() == BackendChoice.AUTO
          ? backends.openBest(backendOptions)
          : backends.open(options.backend().name().toLowerCase(Locale.ROOT), backendOptions);
    }

    private Decoder loadModel(
        Checkpoint checkpoint, ModelConfig config, Backend backend, int length) {
      DecoderOptions limits =
          new DecoderOptions(options.maxBatchTokens(), length, options.maxBatchSize());
      Decoder decoder =
          ModelLoader.load(
              checkpoint, config, backend, limits, options.progressListener()::progress);
      owned.add(decoder::close);
      return decoder;
    }

    /** The workspace of context logits comes before the KV cache, which takes what is left. */
    private ContextLogitsPlan reserveLogits(Decoder decoder, Backend backend) {
      ContextLogitsPlan plan = new ContextLogitsPlan(decoder.head(), backend, RankGroup.single());
      owned.add(plan::close);
      plan.warmUp(decoder.hiddenRows(), decoder.maxBatchTokens());
      return plan;
    }

    private KvStorage allocateKv(ModelConfig config, Backend backend, int length) {
      return backend.allocateKv(
          new KvSizing(config, backend, options.kvBlockSize())
              .shape(
                  options.kvCacheTokens(),
                  options.kvCacheFraction(),
                  (long) options.maxBatchSize() * length));
    }

    /** Null without a transport: then nothing is read for it. */
    private TransferParts transfers(
        ModelFiles files, Checkpoint checkpoint, Backend backend, KvStorage kv) {
      if (options.kvTransport() == null) {
        return null;
      }
      if (!kv.transferable()) {
        throw new EngineException(
            "The "
                + backend.name()
                + " backend can't hand keys and values over; build the engine without kvTransport");
      }
      KvLayout layout =
          new KvLayout(
              CheckpointFingerprint.of(files, checkpoint),
              backend.activationType().name(),
              backend.activationType().bytes(),
              kv.shape().layers(),
              kv.shape().heads(),
              kv.shape().headDim(),
              1);
      return new TransferParts(
          options.kvTransport(), kv, layout, options.kvTransferTimeout().toNanos());
    }

    private RequestFactory requests(
        ModelConfig config,
        GenerationDefaults defaults,
        Tokenizer tokenizer,
        int length,
        boolean transfers) {
      return new RequestFactory(
          config.vocabSize(),
          length,
          Set.copyOf(defaults.endIds()),
          defaults.sampling(),
          tokenizer,
          transfers);
    }

    /** Steps are tried out before the engine serves: one that has no room must not fail later. */
    private ModelRunner warmRunner(
        Backend backend, Decoder decoder, KvStorage kv, ContextLogitsPlan plan, int length) {
      ModelRunner runner =
          new ModelRunner(
              backend,
              decoder,
              kv,
              plan,
              describe,
              options.maxBatchTokens(),
              options.maxBatchSize());
      try {
        runner.warmUp(length);
        return runner;
      } catch (OutOfDeviceMemoryException e) {
        throw new EngineException(noRoomForSteps(e), e);
      }
    }

    private String noRoomForSteps(OutOfDeviceMemoryException cause) {
      String cache =
          options.kvCacheTokens() == null
              ? "kvCacheFraction (" + options.kvCacheFraction() + ")"
              : "kvCacheTokens (" + options.kvCacheTokens() + ")";
      return String.format(
          "A step of %d tokens does not fit into device memory beside the KV cache: lower %s,"
              + " maxBatchTokens (%d) or maxBatchSize (%d). %s",
          options.maxBatchTokens(),
          cache,
          options.maxBatchTokens(),
          options.maxBatchSize(),
          cause.getMessage());
    }

    private GenerationExecutor startExecutor(
        Backend backend,
        ModelRunner runner,
        KvStorage kv,
        ContextLogitsPlan plan,
        RequestFactory requests,
        MemoryBooks memory,
        TransferParts transfers) {
      KvCacheManager manager =
          new KvCacheManager(kv.shape().blocks(), kv.shape().blockSize(), options.prefixReuse());
      ExecutorOptions executorOptions =
          new ExecutorOptions(
              options.maxBatchSize(),
              options.maxBatchTokens(),
              options.chunkedPrefill(),
              options.capacityPolicy(),
              options.maxQueuedRequests(),
              options.queueFullPolicy(),
              options.closeMode(),
              options.integrityChecks());
      return new GenerationExecutor(
          executorOptions,
          new ExecutorParts(
              manager,
              runner,
              new ContextOutputs(plan),
              requests,
              deliveryThreads(),
              backend::isWorker,
              memory,
              backend.hostMemory()::used,
              transfers,
              () -> free(memory)));
    }

    private void free(MemoryBooks memory) {
      try {
        owned.close();
      } finally {
        memory.freed();
      }
    }

    /**
     * Threads for callers' code: as many as are busy, none when idle. They outlive the engine until
     * its results are delivered.
     */
    private static ExecutorService deliveryThreads() {
      return new ThreadPoolExecutor(
          0,
          Integer.MAX_VALUE,
          5,
          TimeUnit.SECONDS,
          new SynchronousQueue<>(),
          task -> {
            Thread thread = new Thread(task, "halcyon-delivery");
            thread.setDaemon(true);
            return thread;
          });
    }
  }
}
