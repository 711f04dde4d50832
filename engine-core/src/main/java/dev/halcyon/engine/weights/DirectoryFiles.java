package dev.halcyon.engine.weights;

import dev.halcyon.engine.ModelLoadException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/** The files that lie directly in a directory. */
final class DirectoryFiles implements ModelFiles {

  private final Path directory;
  private final List<String> names;

  DirectoryFiles(Path directory) {
    this.directory = directory;
    if (!Files.isDirectory(directory)) {
      throw new ModelLoadException(
          directory
              + (Files.exists(directory) ? " is not a directory" : " does not exist")
              + ". Expected a checkpoint directory in Hugging Face layout (config.json,"
              + " model.safetensors, tokenizer.json)");
    }
    try (Stream<Path> files = Files.list(directory)) {
      names =
          files
              .filter(Files::isRegularFile)
              .map(file -> file.getFileName().toString())
              .sorted()
              .toList();
    } catch (IOException e) {
      throw new ModelLoadException("Can't list the files of " + directory + ": " + e, e);
    }
  }

  @Override
  public String description() {
    return directory.toString();
  }

  @Override
  public List<String> names() {
    return names;
  }

  @Override
  public Optional<byte[]> read(String name) throws IOException {
    Path file = resolve(name);
    return Files.isRegularFile(file) ? Optional.of(Files.readAllBytes(file)) : Optional.empty();
  }

  @Override
  public long size(String name) throws IOException {
    return Files.size(resolve(name));
  }

  @Override
  public ByteBuffer map(String name, long offset, int length) throws IOException {
    try (FileChannel channel = FileChannel.open(resolve(name), StandardOpenOption.READ)) {
      if (offset < 0 || length < 0 || offset > channel.size() - length) {
        throw new IOException(
            length + " bytes from " + offset + " on are not within " + channel.size() + " bytes");
      }
      return channel
          .map(FileChannel.MapMode.READ_ONLY, offset, length)
          .order(ByteOrder.LITTLE_ENDIAN);
    }
  }

  private Path resolve(String name) {
    return directory.resolve(FileNames.requirePlain(name));
  }
}
