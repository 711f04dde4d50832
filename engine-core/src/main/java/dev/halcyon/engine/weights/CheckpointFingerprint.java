package dev.halcyon.engine.weights;

import dev.halcyon.engine.ModelLoadException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeSet;

/**
 * Tells checkpoints apart without reading all of them: SHA-256 of config.json, and of the name,
 * type, shape and a few bytes of every tensor. Another training of the same architecture differs.
 */
public final class CheckpointFingerprint {

  private static final String CONFIG = "config.json";
  private static final int SAMPLE_BYTES = 64;

  private CheckpointFingerprint() {}

  /**
   * The fingerprint of a checkpoint, 64 hexadecimal digits.
   *
   * @param checkpoint the one that was opened from the files
   * @throws ModelLoadException if it can't be read
   */
  public static String of(ModelFiles files, Checkpoint checkpoint) {
    MessageDigest digest = sha256();
    try {
      files.read(CONFIG).ifPresent(digest::update);
      for (String name : new TreeSet<>(checkpoint.names())) {
        add(digest, files, checkpoint.find(name).orElseThrow());
      }
    } catch (IOException e) {
      throw new ModelLoadException(files.description() + " can't be read: " + e.getMessage(), e);
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  private static void add(MessageDigest digest, ModelFiles files, TensorInfo tensor)
      throws IOException {
    String description = tensor.name() + '\n' + tensor.type() + '\n' + tensor.shape() + '\n';
    digest.update(description.getBytes(StandardCharsets.UTF_8));
    int length = (int) Math.min(SAMPLE_BYTES, tensor.bytes());
    if (length == 0) {
      return;
    }
    long last = tensor.bytes() - length;
    for (long begin : List.of(0L, last / 2, last)) {
      ByteBuffer sample = files.map(tensor.file(), tensor.offset() + begin, length);
      digest.update(sample);
    }
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
