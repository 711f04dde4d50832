package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.backend.RopeTable;
import dev.halcyon.engine.logits.DeviceBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntConsumer;

/**
 * A decoder-only transformer, composed of backend operations. It owns its weights and the buffers
 * of a forward pass, which are allocated once for the largest batch. One thread, the backend's,
 * calls it.
 */
public final class Decoder implements AutoCloseable {

  private final ModelConfig config;
  private final Backend backend;
  private final int maxBatchTokens;
  private final int maxSequenceLength;
  private final float embeddingScale;
  private final Owned owned;
  private final long weightBytes;
  private final DecoderWeights<Matrix> weights;
  private final List<AttentionSpec> attentions = new ArrayList<>();
  private final List<RopeTable> ropes = new ArrayList<>();
  private final Scratch scratch;
  private final OutputHead head;

  /**
   * Builds a decoder over loaded weights.
   *
   * @param weightBytes the device memory that they take
   * @param owned what the decoder closes in the end; its own buffers are added, even if this
   *     constructor fails
   */
  Decoder(
      ModelConfig config,
      Backend backend,
      DecoderOptions options,
      DecoderWeights<Matrix> weights,
      long weightBytes,
      Owned owned) {
    this.config = config;
    this.backend = backend;
    this.owned = owned;
    this.weights = weights;
    this.weightBytes = weightBytes;
    this.maxBatchTokens = options.maxBatchTokens();
    this.maxSequenceLength = maxSequenceLength(config, options);
    // Models are trained, and run elsewhere, with a factor of the type that they compute in.
    this.embeddingScale = backend.activationType().round(config.embeddingScale());
    loadLayers();
    this.scratch = Scratch.allocate(config, backend, maxBatchTokens, owned);
    Matrix projection = weights.head() == null ? weights.embedding() : weights.head();
    this.head = new OutputHead(config, backend, projection, options.maxLogitRows(), owned);
  }

  /** The most positions of a sequence: what was asked for, within what the model allows. */
  public static int maxSequenceLength(ModelConfig config, DecoderOptions options) {
    return Math.min(config.contextLength(), options.maxSequenceLength());
  }

  /**
   * The bytes that a decoder of this size allocates besides its weights, the output head's
   * included.
   */
  public static long workspaceBytes(ModelConfig config, DecoderOptions options, Backend backend) {
    int positions = maxSequenceLength(config, options);
    long ropes =
        config.layers().stream()
            .map(LayerConfig::rope)
            .filter(Objects::nonNull)
            .distinct()
            .mapToLong(rope -> RopeTables.bytes(rope, positions))
            .sum();
    return ropes
        + Scratch.bytes(config, backend, options.maxBatchTokens())
        + OutputHead.bytes(config, backend, options.maxLogitRows());
  }

  private void loadLayers() {
    Map<RopeConfig, RopeTable> tables = new HashMap<>();
    for (int layer = 0; layer < config.layers().size(); layer++) {
      RopeConfig rope = config.layers().get(layer).rope();
      RopeTable table = tables.get(rope);
      if (table == null && rope != null) {
        table = RopeTables.load(backend, rope, maxSequenceLength);
        owned.add(table::close);
        tables.put(rope, table);
      }
      ropes.add(table);
      attentions.add(config.attention(layer));
    }
  }

  public ModelConfig config() {
    return config;
  }

  /**
   * The hidden rows [maxBatchTokens, hiddenSize] that {@link #forward} returns, whatever they hold.
   */
  public DeviceBuffer hiddenRows() {
    return scratch.normed();
  }

  /** The projection from hidden rows to logits. */
  public OutputHead head() {
    return head;
  }

  /** The device memory that the weights take; mapped files take none. */
  public long weightBytes() {
    return weightBytes;
  }

  /** The most rows of a batch. */
  public int maxBatchTokens() {
    return maxBatchTokens;
  }

  /** The most positions of a sequence. */
  public int maxSequenceLength() {
    return maxSequenceLength;
  }

  /**
   * Runs a batch and writes its keys and values to the cache.
   *
   * @param onLayer told of each layer, from 0 on, when writing its keys and values is queued
   * @return the final, normalised hidden rows [rows, hiddenSize]; valid until the next call, not to
   *     be closed
   */
  public DeviceBuffer forward(DeviceBatch batch, KvStorage kv, IntConsumer onLayer) {
    int rows = batch.batch().rows();
    if (rows < 1 || rows > maxBatchTokens) {
      throw new IllegalArgumentException(
          "batch must have 1 to " + maxBatchTokens + " rows, not " + rows);
    }
    List<LayerWeights<Matrix>> layers = weights.layers();
    backend.embed(weights.embedding(), batch, embeddingScale, scratch.residual());
    norm(scratch.residual(), layers.get(0).inputNorm(), rows, scratch.normed());
    for (int layer = 0; layer < layers.size(); layer++) {
      attend(batch, kv, layer, rows, onLayer);
      if (config.block() == BlockLayout.PARALLEL) {
        backend.add(scratch.residual(), scratch.delta(), rows, config.hiddenSize());
      } else {
        addAndNorm(layers.get(layer).mlpNorm(), rows);
      }
      feedForward(layers.get(layer), rows);
      boolean last = layer + 1 == layers.size();
      addAndNorm(last ? weights.finalNorm() : layers.get(layer + 1).inputNorm(), rows);
    }
    return scratch.normed();
  }

  /** From normed to delta. */
  private void attend(DeviceBatch batch, KvStorage kv, int layer, int rows, IntConsumer onLayer) {
    LayerWeights<Matrix> w = weights.layers().get(layer);
    AttentionSpec spec = attentions.get(layer);
    DeviceBuffer qkv = scratch.wide();
    backend.linear(scratch.normed(), rows, w.qkv(), w.qkvBias(), qkv);
    if (w.queryNorm() != null) {
      normHeads(qkv, 0, spec.queryHeads(), w.queryNorm(), rows);
      normHeads(qkv, spec.queryHeads() * spec.headDim(), spec.kvHeads(), w.keyNorm(), rows);
    }
    backend.ropeAndWriteKv(batch, qkv, spec, ropes.get(layer), kv, layer);
    onLayer.accept(layer);
    backend.attention(batch, qkv, spec, kv, layer, scratch.inner());
    backend.linear(scratch.inner(), rows, w.output(), w.outputBias(), scratch.delta());
    normDelta(w.attentionPostNorm(), rows);
  }

  private void normHeads(DeviceBuffer qkv, int firstCol, int heads, Matrix weight, int rows) {
    backend.rmsNormHeads(
        qkv,
        config.packedCols(),
        firstCol,
        heads,
        weight,
        config.normWeightOffset(),
        config.normEps(),
        rows);
  }

  /** From normed to delta. */
  private void feedForward(LayerWeights<Matrix> w, int rows) {
    DeviceBuffer gateUp = scratch.wide();
    backend.linear(scratch.normed(), rows, w.gateUp(), w.gateUpBias(), gateUp);
    backend.gatedActivation(
        gateUp, rows, config.intermediateSize(), config.activation(), scratch.inner());
    backend.linear(scratch.inner(), rows, w.down(), w.downBias(), scratch.delta());
    normDelta(w.mlpPostNorm(), rows);
  }

  /**
   * @param weight null to leave delta as it is
   */
  private void normDelta(Matrix weight, int rows) {
    if (weight != null) {
      norm(scratch.delta(), weight, rows, scratch.delta());
    }
  }

  private void norm(DeviceBuffer x, Matrix weight, int rows, DeviceBuffer out) {
    switch (config.norm()) {
      case RMS ->
          backend.rmsNorm(x, weight, config.normWeightOffset(), config.normEps(), rows, out);
      case LAYER -> backend.layerNorm(x, weight, config.normEps(), rows, out);
    }
  }

  /** Adds delta to the residual, and normalises that to normed. */
  private void addAndNorm(Matrix weight, int rows) {
    if (config.norm() == NormKind.LAYER) {
      backend.add(scratch.residual(), scratch.delta(), rows, config.hiddenSize());
      norm(scratch.residual(), weight, rows, scratch.normed());
      return;
    }
    backend.addRmsNorm(
        scratch.residual(),
        scratch.delta(),
        weight,
        config.normWeightOffset(),
        config.normEps(),
        rows,
        scratch.normed());
  }

  /** Frees the weights and buffers; closing twice is harmless. */
  @Override
  public void close() {
    owned.close();
  }
}
