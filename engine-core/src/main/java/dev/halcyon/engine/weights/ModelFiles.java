package dev.halcyon.engine.weights;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * The files of a checkpoint in Hugging Face layout, whether they lie in a directory or among an
 * application's resources. A file's name is a plain name without folders; other names are an {@link
 * IllegalArgumentException}.
 */
public interface ModelFiles {

  /**
   * The files of a directory, memory-mapped where they are large.
   *
   * @throws dev.halcyon.engine.ModelLoadException if there is no such directory
   */
  static ModelFiles directory(Path directory) {
    return new DirectoryFiles(directory);
  }

  /**
   * Resources of the class path. A weights file is read once into a direct buffer, which stays in
   * memory for as long as something refers to it.
   *
   * @param loader where to look; null for the system class loader
   * @param prefix the folder of the resources, such as "com/example/model/"
   */
  static ModelFiles resources(ClassLoader loader, String prefix) {
    return new ResourceFiles(loader, prefix);
  }

  /** What to call this checkpoint in messages. */
  String description();

  /** The names of the files; of resources, those of the usual names that exist. */
  List<String> names();

  /** Whether there is such a file. */
  default boolean has(String name) {
    return names().contains(name);
  }

  /** What to call a file of this checkpoint in messages. */
  default String describe(String name) {
    return name + " in " + description();
  }

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
