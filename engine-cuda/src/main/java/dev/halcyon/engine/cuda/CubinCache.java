package dev.halcyon.engine.cuda;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compiled kernels on disk, so that only the first start on a machine compiles. A file is named by
 * the SHA-256 of all that its content depends on, and begins with the SHA-256 of that content: what
 * is damaged is compiled again. No failure to read or write here is more than a log line.
 *
 * <p>The folder is the system property {@code halcyon.cuda.cache}, or else {@code halcyon/cubin} in
 * {@code XDG_CACHE_HOME}, {@code LOCALAPPDATA} or {@code ~/.cache}. It may be deleted at any time.
 */
final class CubinCache {

  private static final Logger LOG = LoggerFactory.getLogger(CubinCache.class);
  private static final String FOLDER_PROPERTY = "halcyon.cuda.cache";
  private static final int DIGEST_BYTES = 32;

  private final Path folder;

  /**
   * @param folder where files lie; made when the first one is written
   */
  CubinCache(Path folder) {
    this.folder = folder;
  }

  /** The cache in this user's folder. */
  static CubinCache ofUser() {
    String property = System.getProperty(FOLDER_PROPERTY);
    if (property != null) {
      return new CubinCache(Path.of(property));
    }
    for (String variable : List.of("XDG_CACHE_HOME", "LOCALAPPDATA")) {
      String value = System.getenv(variable);
      if (value != null && !value.isBlank()) {
        return new CubinCache(Path.of(value, "halcyon", "cubin"));
      }
    }
    return new CubinCache(
        Path.of(System.getProperty("user.home", "."), ".cache", "halcyon", "cubin"));
  }

  /**
   * The code of a source, from the disk or else compiled.
   *
   * @param inputs everything that decides what the compiler puts out
   */
  byte[] get(List<String> inputs, Supplier<byte[]> compile) {
    Path file = folder.resolve(name(inputs));
    byte[] code = read(file);
    if (code == null) {
      code = compile.get();
      write(file, code);
    }
    return code;
  }

  private static String name(List<String> inputs) {
    MessageDigest digest = sha256();
    for (String input : inputs) {
      byte[] bytes = input.getBytes(StandardCharsets.UTF_8);
      // With its length before each, no two lists of inputs run together to the same bytes.
      digest.update((bytes.length + ":").getBytes(StandardCharsets.UTF_8));
      digest.update(bytes);
    }
    return HexFormat.of().formatHex(digest.digest()) + ".bin";
  }

  /** Returns null if the file is not there, or not whole. */
  private static byte[] read(Path file) {
    try {
      byte[] bytes = Files.readAllBytes(file);
      if (bytes.length > DIGEST_BYTES) {
        byte[] code = Arrays.copyOfRange(bytes, DIGEST_BYTES, bytes.length);
        if (Arrays.equals(sha256().digest(code), Arrays.copyOf(bytes, DIGEST_BYTES))) {
          return code;
        }
      }
      LOG.warn("{} is damaged; its kernels are compiled again", file);
    } catch (NoSuchFileException e) {
      LOG.debug("{} is not there yet", file);
    } catch (IOException | RuntimeException e) {
      LOG.warn("{} can't be read ({}); its kernels are compiled again", file, e.toString());
    }
    return null;
  }

  /** Writes to a file of its own and renames it, so that nobody ever reads half a file. */
  private void write(Path file, byte[] code) {
    Path part = null;
    try {
      Files.createDirectories(folder);
      part = Files.createTempFile(folder, "new", ".part");
      byte[] digest = sha256().digest(code);
      byte[] bytes = Arrays.copyOf(digest, digest.length + code.length);
      System.arraycopy(code, 0, bytes, digest.length, code.length);
      Files.write(part, bytes);
      Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException | RuntimeException e) {
      LOG.warn("Compiled kernels can't be kept in {}: {}", folder, e.toString());
      deleteQuietly(part);
    }
  }

  private static void deleteQuietly(Path file) {
    try {
      if (file != null) {
        Files.deleteIfExists(file);
      }
    } catch (IOException e) {
      LOG.debug("{} is left behind: {}", file, e.toString());
    }
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("Every Java platform has SHA-256", e);
    }
  }
}
