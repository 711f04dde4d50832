package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HostTensor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/** Makes host tensors resident on the device. */
final class WeightLoader implements AutoCloseable {

  private final CudaMemory memory;
  private final DType activations;
  private final WeightStream stream;

  WeightLoader(CudaContext context, CudaMemory memory, DType activations, int threads) {
    this.memory = memory;
    this.activations = activations;
    this.stream = new WeightStream(context, threads);
  }

  /** A run of elements of a host buffer, and where it goes. */
  record Piece(ByteBuffer from, DType type, int elements, long address) {}

  /**
   * Joins the rows of tensors, or the elements of vectors; complete for all operations after it.
   */
  CudaMatrix load(List<HostTensor> parts) {
    if (parts.isEmpty()) {
      throw new IllegalArgumentException("parts must not be empty");
    }
    parts.forEach(HostTensor::requireComplete);
    boolean vector = parts.stream().allMatch(part -> part.rows() == 1);
    HostTensor first = parts.get(0);
    int rows = vector ? 1 : 0;
    int cols = vector ? 0 : first.cols();
    for (HostTensor part : parts) {
      if (vector) {
        cols = Math.addExact(cols, part.cols());
      } else if (part.cols() != cols) {
        throw new IllegalArgumentException(
            part.name() + " has " + part.cols() + " columns, " + first.name() + " " + cols);
      } else {
        rows = Math.addExact(rows, part.rows());
      }
    }
    DType resident = residentType(parts);
    CudaBuffer buffer =
        memory.allocateUninitialized((long) rows * cols * resident.bytes(), first.name());
    try {
      stream.send(pieces(parts, resident, buffer.address()), resident);
      return new CudaMatrix(first.name(), first.dtype(), resident, rows, cols, buffer);
    } catch (RuntimeException | Error e) {
      buffer.close();
      throw e;
    }
  }

  private DType residentType(List<HostTensor> parts) {
    return parts.stream().allMatch(part -> part.dtype() == activations) ? activations : DType.F32;
  }

  private static List<Piece> pieces(List<HostTensor> parts, DType resident, long address) {
    List<Piece> pieces = new ArrayList<>();
    int most = WeightStream.SLOT_BYTES / resident.bytes();
    long to = address;
    for (HostTensor part : parts) {
      long left = (long) part.rows() * part.cols();
      for (ByteBuffer segment : part.segments()) {
        long count = Math.min(left, (long) part.rowsPerSegment() * part.cols());
        left -= count;
        for (long at = 0; at < count; at += most) {
          int run = (int) Math.min(most, count - at);
          ByteBuffer from =
              segment
                  .slice((int) (at * part.dtype().bytes()), run * part.dtype().bytes())
                  .order(ByteOrder.LITTLE_ENDIAN);
          pieces.add(new Piece(from, part.dtype(), run, to));
          to += (long) run * resident.bytes();
        }
      }
    }
    return pieces;
  }

  /** Frees what loading needs; a later load makes it again. */
  void release() {
    stream.release();
  }

  @Override
  public void close() {
    stream.release();
  }
}
