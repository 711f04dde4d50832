package dev.halcyon.engine.model;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.weights.ModelFiles;
import java.io.IOException;
import java.util.Optional;

/** Small files of a checkpoint, with the engine's own error when they can't be read. */
final class FileText {

  private FileText() {}

  static Optional<byte[]> find(ModelFiles files, String name) {
    try {
      return files.read(name);
    } catch (IOException e) {
      throw new ModelLoadException(files.describe(name) + " can't be read: " + e, e);
    }
  }

  static byte[] require(ModelFiles files, String name) {
    return find(files, name)
        .orElseThrow(
            () ->
                new ModelLoadException(
                    files.description()
                        + " has no "
                        + name
                        + ". Expected a checkpoint in Hugging Face layout (config.json,"
                        + " model.safetensors, tokenizer.json), found "
                        + files.names()));
  }
}
