package dev.halcyon.engine.model;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.backend.Matrix;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.weights.Checkpoint;
import dev.halcyon.engine.weights.LoadProgress;
import dev.halcyon.engine.weights.TensorInfo;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Makes a checkpoint's weights resident and builds the decoder that runs them. */
public final class ModelLoader {

  private static final Logger LOG = LoggerFactory.getLogger(ModelLoader.class);

  /** Tensors that some checkpoints carry and every implementation computes instead. */
  private static final String ROTARY_BUFFER = "rotary_emb.inv_freq";

  private ModelLoader() {}

  /**
   * Loads a model. Every tensor is checked against the configuration before the first one is
   * loaded. If anything fails, all that was loaded is freed.
   *
   * @param progress hears of bytes of weights; {@link LoadProgress#NONE} for nobody
   * @return the decoder, owned by the caller
   * @throws ModelLoadException if a file or a tensor is missing, damaged or not what the
   *     configuration says
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if the model or its buffers don't
   *     fit
   */
  public static Decoder load(
      Checkpoint checkpoint,
      ModelConfig config,
      Backend backend,
      DecoderOptions options,
      LoadProgress progress) {
    DecoderWeights<TensorStack> layout = TensorLayout.of(config);
    long total = check(layout, checkpoint);
    Owned owned = new Owned();
    try {
      Loading loading = new Loading(checkpoint, backend, owned, progress, total);
      progress.progress(0, total);
      long before = backend.memory().used();
      DecoderWeights<Matrix> weights = layout.map(loading::load);
      long weightBytes = backend.memory().used() - before;
      return new Decoder(config, backend, options, weights, weightBytes, owned);
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  /** Checks every tensor and returns the bytes of all. */
  private static long check(DecoderWeights<TensorStack> layout, Checkpoint checkpoint) {
    Set<String> used = new HashSet<>();
    long[] total = {0};
    layout.map(
        stack -> {
          total[0] += check(stack, checkpoint);
          stack.parts().forEach(part -> used.add(part.name()));
          return stack;
        });
    List<String> unused =
        checkpoint.names().stream()
            .filter(name -> !used.contains(name) && !name.endsWith(ROTARY_BUFFER))
            .toList();
    if (!unused.isEmpty()) {
      LOG.warn(
          "{} tensors of the checkpoint are not used, such as {}", unused.size(), unused.get(0));
    }
    return total[0];
  }

  private static long check(TensorStack stack, Checkpoint checkpoint) {
    TensorInfo first = null;
    long bytes = 0;
    for (TensorStack.Part part : stack.parts()) {
      TensorInfo tensor = checkpoint.require(part.name(), part.shape());
      first = first == null ? tensor : first;
      if (!tensor.type().equals(first.type())) {
        throw new ModelLoadException(
            tensor.file()
                + ": tensor "
                + tensor.name()
                + " has dtype "
                + tensor.type()
                + ", expected "
                + first.type()
                + " as that of "
                + first.name()
                + ", with which it is computed");
      }
      bytes += tensor.bytes();
    }
    return bytes;
  }

  /** Loads stack after stack and keeps count. */
  private static final class Loading {

    private final Checkpoint checkpoint;
    private final Backend backend;
    private final Owned owned;
    private final LoadProgress progress;
    private final long total;
    private long done;

    Loading(
        Checkpoint checkpoint, Backend backend, Owned owned, LoadProgress progress, long total) {
      this.checkpoint = checkpoint;
      this.backend = backend;
      this.owned = owned;
      this.progress = progress;
      this.total = total;
    }

    Matrix load(TensorStack stack) {
      List<HostTensor> parts =
          stack.parts().stream().map(part -> checkpoint.tensor(part.name())).toList();
      Matrix matrix = backend.load(parts);
      owned.add(matrix::close);
      done += parts.stream().mapToLong(HostTensor::bytes).sum();
      progress.progress(done, total);
      return matrix;
    }
  }
}
