package dev.halcyon.engine.logits;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Projects context rows to logits in bounded memory. Storage for what a request is to get is
 * prepared before its first row is projected; rows then go through buffers that are allocated when
 * there is room and are resident otherwise, so that a projection never fails for want of memory.
 *
 * <p>One thread calls it, the device's owner; what it hands out may be read and closed by any.
 */
public final class ContextLogitsPlan implements AutoCloseable {

  /** The rows of the resident workspace. */
  public static final int RESIDENT_ROWS = ResidentWorkspace.ROWS;

  /**
   * The most memory that optional buffers of a head that puts out float32 take. Each projection
   * reads all of the head's weights, so more rows at a time cost less a row; this much and the
   * resident workspace of a head of 131072 entries are 64 MiB.
   */
  public static final long OPTIONAL_BYTES = 48L << 20;

  /**
   * The same for a head that puts out 16 bits, as on a GPU: 256 rows of 131072 entries, or a
   * quarter of them for 1024 rows.
   */
  public static final long NARROW_OPTIONAL_BYTES = 64L << 20;

  private static final Logger LOG = LoggerFactory.getLogger(ContextLogitsPlan.class);

  /** How many sizes are tried before the resident workspace takes over. */
  private static final int MAX_TRIES = 8;

  private final LmHead head;
  private final LogitsDevice device;
  private final RankGroup ranks;
  private final ResidentWorkspace resident;
  private final TiledProjection tiles;
  private final Set<FullLogits> onDevice = ConcurrentHashMap.newKeySet();

  /**
   * Reserves the resident workspace, if the head is eligible for bounded projection at all.
   *
   * @throws OutOfDeviceMemoryException if there is no room for it; nothing is held then
   * @throws IllegalArgumentException if what the ranks put out does not make whole rows
   */
  public ContextLogitsPlan(LmHead head, LogitsDevice device, RankGroup ranks) {
    this(head, device, ranks, optionalBytes(head), TiledProjection.LEAST_COLUMNS);
  }

  /**
   * @param tileBytes the most memory of a tile of the vocabulary
   * @param leastColumns the fewest columns of one
   */
  ContextLogitsPlan(
      LmHead head, LogitsDevice device, RankGroup ranks, long tileBytes, int leastColumns) {
    this.head = head;
    this.device = device;
    this.ranks = ranks;
    ProjectionBuffers.requireWholeRows(head, ranks);
    Eligibility eligibility = Eligibility.of(head.description(), BatchDescription.PLAIN);
    if (!eligibility.eligible()) {
      LOG.info("Context logits are projected whole: {}", eligibility.reason());
    }
    this.resident = new ResidentWorkspace(head, device, ranks);
    this.tiles =
        ranks.size() == 1
            ? new TiledProjection(head, device, resident, tileBytes, leastColumns)
            : null;
  }

  /**
   * The bytes that the resident workspace takes; next to nothing for a head that is not eligible.
   */
  public static long workspaceBytes(LmHead head, RankGroup ranks) {
    return ResidentWorkspace.bytes(head, ranks);
  }

  /**
   * Touches the resident workspace by a projection of the largest size that it will see.
   *
   * @param hidden [rows, hiddenSize], whatever it holds
   */
  public void warmUp(DeviceBuffer hidden, int rows) {
    if (resident.projection() != null) {
      int count = Math.min(rows, RESIDENT_ROWS);
      DeviceRows projected = resident.projection().project(hiddenRows(hidden, 0, count), count);
      if (resident.conversion() != null) {
        projected.load(0, count, resident.conversion());
      }
    }
  }

  /**
   * Projects as many rows at once as a step of so many tokens does, and keeps nothing: a device
   * that chooses how to project by trying does so now.
   *
   * @param hidden [rows, hiddenSize], whatever it holds
   */
  public void tryOut(DeviceBuffer hidden, int rows) {
    if (tiles != null) {
      tiles.tryOut(hidden, rows);
    }
    try (ProjectionBuffers optional = optionalBuffers(rows)) {
      if (optional != null) {
        optional.project(hiddenRows(hidden, 0, optional.rows()), optional.rows());
      }
    }
  }

  /**
   * Prepares what a request asks for, before its first projection. With several ranks, all of them
   * call this, and rank 0 alone holds the results.
   *
   * @param name names the request in the log
   * @param promptLength the rows to come
   * @param full whether full rows are wanted
   * @param logprobs what the rows are reduced to, or null if that isn't wanted
   * @throws OutOfHostMemoryException if neither the device nor the host has room for the full rows;
   *     nothing is held then
   */
  public ContextLogits open(String name, int promptLength, boolean full, PromptLogprobs logprobs) {
    boolean reports = ranks.rank() == 0;
    FullLogits storage = null;
    if (full && reports) {
      try {
        storage = prepare(name, promptLength);
      } catch (RuntimeException | Error e) {
        // Whatever it was, the other ranks wait to hear of it.
        ranks.min(0, resident.vote());
        throw e;
      }
    }
    if (ranks.min(1, resident.vote()) == 0) {
      throw new OutOfHostMemoryException(
          "context logits of " + name + " on another rank",
          FullLogits.bytes(promptLength, head.vocabSize()),
          0);
    }
    return new ContextLogits(
        device, promptLength, head.vocabSize(), storage, reports ? logprobs : null);
  }

  private FullLogits prepare(String name, int rows) {
    FullLogits storage =
        FullLogits.prepare(
            device,
            rows,
            head.vocabSize(),
            "context logits of " + name,
            e -> LOG.warn("Context logits of {} go to host memory: {}", name, e.getMessage()));
    if (storage.onDevice()) {
      onDevice.add(storage);
      storage.onClose(onDevice::remove);
    }
    return storage;
  }

  /**
   * Projects the next context rows of a request.
   *
   * @param target what it has so far
   * @param batch the step that the rows are from
   * @param hidden [.., hiddenSize], the hidden rows of the step
   * @param firstRow which of them is the first
   * @param position its position in the prompt: {@code target.scored()}
   * @param rows how many
   * @param lastRow gets a copy of the last row's logits, [vocabSize] of the head's type; or null
   * @throws OutOfDeviceMemoryException if the step is not eligible for bounded projection, and
   *     there is no room for a whole one; no row counts as scored then
   */
  public void project(
      ContextLogits target,
      BatchDescription batch,
      DeviceBuffer hidden,
      int firstRow,
      int position,
      int rows,
      DeviceBuffer lastRow) {
    target.requireNext(position, rows);
    DeviceBuffer chunk = hiddenRows(hidden, firstRow, rows);
    if (!Eligibility.of(head.description(), batch).eligible()) {
      projectWhole(target, chunk, rows, lastRow);
    } else if (projectsInPlace(target)) {
      projectInPlace(target, chunk, rows, lastRow);
    } else {
      int done = projectInTiles(target, chunk, rows, lastRow);
      if (done < rows) {
        projectInChunks(target, hiddenRows(chunk, done, rows - done), rows - done, lastRow);
      }
    }
  }

  /** Full path: every row at once, in the head's type. */
  private void projectWhole(
      ContextLogits target, DeviceBuffer hidden, int rows, DeviceBuffer last) {
    ProjectionBuffers buffers;
    try {
      buffers = new ProjectionBuffers(head, device, ranks, rows, "whole logits projection");
    } catch (RuntimeException | Error e) {
      ranks.min(0, resident.vote());
      throw e;
    }
    try (buffers) {
      if (ranks.min(1, resident.vote()) == 0) {
        throw new OutOfDeviceMemoryException(
            "whole logits projection on another rank",
            ProjectionBuffers.bytes(head, ranks, rows),
            0);
      }
      DeviceRows projected = buffers.project(hidden, rows);
      copyLast(projected, last);
      target.accept(projected, resident.conversion());
    }
  }

  /** Whether rows can be projected straight to where they stay. */
  private boolean projectsInPlace(ContextLogits target) {
    return ranks.size() == 1
        && head.outputType() == LogitsType.F32
        && target.full() != null
        && target.full().onDevice();
  }

  private void projectInPlace(
      ContextLogits target, DeviceBuffer hidden, int rows, DeviceBuffer last) {
    FullLogits storage = target.full();
    int done = 0;
    while (done < rows) {
      int position = target.scored();
      int count = Math.min(rows - done, storage.contiguous(position));
      DeviceBuffer out = storage.onDevice(position, count);
      head.project(hiddenRows(hidden, done, count), count, out);
      done += count;
      if (done == rows) {
        copyLast(new DeviceRows(device, out, LogitsType.F32, count, head.vocabSize()), last);
      }
      target.acceptInPlace(count);
    }
  }

  /** Takes as many rows as can go by tiles of the vocabulary; returns their number. */
  private int projectInTiles(
      ContextLogits target, DeviceBuffer hidden, int rows, DeviceBuffer last) {
    int done = 0;
    while (tiles != null && done < rows) {
      int taken = tiles.project(target, hiddenRows(hidden, done, rows - done), rows - done, last);
      if (taken == 0) {
        break;
      }
      done += taken;
    }
    return done;
  }

  private void projectInChunks(
      ContextLogits target, DeviceBuffer hidden, int rows, DeviceBuffer last) {
    boolean toHost = target.full() != null && !target.full().onDevice();
    try (ProjectionBuffers optional = toHost ? null : optionalBuffers(rows)) {
      int agreed = ranks.min(optional == null ? RESIDENT_ROWS : optional.rows(), resident.vote());
      ProjectionBuffers buffers =
          optional == null || agreed <= RESIDENT_ROWS ? resident.projection() : optional;
      int done = 0;
      while (done < rows) {
        int count = Math.min(agreed, rows - done);
        DeviceRows projected = buffers.project(hiddenRows(hidden, done, count), count);
        done += count;
        if (done == rows) {
          copyLast(projected, last);
        }
        target.accept(projected, resident.conversion());
      }
    }
  }

  /**
   * Buffers for more rows than the resident ones hold, as many as there is room for; null if the
   * resident ones do.
   */
  private ProjectionBuffers optionalBuffers(int rows) {
    if (resident.projection() == null) {
      return null;
    }
    long rowBytes = ProjectionBuffers.bytes(head, ranks, 1);
    int wanted = (int) Math.min(rows, optionalBytes(head) / rowBytes);
    for (int tries = 0; wanted > RESIDENT_ROWS && tries < MAX_TRIES; tries++) {
      try {
        return new ProjectionBuffers(head, device, ranks, wanted, "logits projection");
      } catch (OutOfDeviceMemoryException e) {
        LOG.debug("No room to project {} rows at once: {}", wanted, e.getMessage());
        wanted = (wanted + 1) / 2;
      }
    }
    return null;
  }

  private static long optionalBytes(LmHead head) {
    return head.outputType() == LogitsType.F32 ? OPTIONAL_BYTES : NARROW_OPTIONAL_BYTES;
  }

  private void copyLast(DeviceRows rows, DeviceBuffer last) {
    if (last != null) {
      DeviceBuffer row = rows.slice(rows.rows() - 1, 1);
      device.copy(row, last, row.bytes());
    }
  }

  private DeviceBuffer hiddenRows(DeviceBuffer hidden, int first, int count) {
    long rowBytes = (long) head.hiddenSize() * head.hiddenElementBytes();
    return hidden.slice(first * rowBytes, count * rowBytes);
  }

  /**
   * Frees the workspace, and every full result that lies on the device: reading one says that it is
   * gone with the engine. Results on the host stay. Closing twice is harmless.
   */
  @Override
  public void close() {
    for (FullLogits storage : onDevice) {
      storage.close("These logits lay on the device, and are gone since its engine was closed");
    }
    if (tiles != null) {
      tiles.close();
    }
    resident.close();
  }
}
