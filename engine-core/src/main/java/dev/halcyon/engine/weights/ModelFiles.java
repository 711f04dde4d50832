package dev.halcyon.engine.weights;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Optional;

/**
 * The files of a checkpoint, whether they lie in a directory or among an application's resources.
 */
public interface ModelFiles {

  /** What to call this checkpoint in messages. */
  String description();

  /** The names of the files. */
  List<String> names();

  /** A small file's content; empty if there is no such file. */
  Optional<byte[]> read(String name) throws IOException;

  /** A file's size in bytes. */
  long size(String name) throws IOException;

  /**
   * A range of a file as a direct, little-endian buffer, mapped where the file allows it and
   * unmapped when the buffer is collected.
   *
   * @param length at most {@link Integer#MAX_VALUE}
   */
  ByteBuffer map(String name, long offset, int length) throws IOException;
}
