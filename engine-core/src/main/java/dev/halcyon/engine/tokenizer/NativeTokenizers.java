package dev.halcyon.engine.tokenizer;

import ai.djl.huggingface.tokenizers.jni.LibUtils;
import ai.djl.huggingface.tokenizers.jni.TokenizersLibrary;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.ModelLoadException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The native tokenizers library, taken from its jar. It is unpacked and loaded here, and called
 * through its JNI class, because DJL's own way to it looks for GPUs, warns in the log when it finds
 * an unusable one, downloads another build when it finds a usable one, reports usage over the
 * network, and reads tokenizer_config.json in its own way.
 */
final class NativeTokenizers {

  private static final Logger LOG = LoggerFactory.getLogger(NativeTokenizers.class);

  /** With the process's number behind: the folder in java.io.tmpdir. */
  private static final String FOLDER = "halcyon-tokenizers-";

  /** The library, or why there is none; loaded when first needed, once in a JVM. */
  private static final class Loaded {
    static final Loaded ONCE = load();

    final TokenizersLibrary library;
    final Throwable failure;

    private Loaded(TokenizersLibrary library, Throwable failure) {
      this.library = library;
      this.failure = failure;
    }

    private static Loaded load() {
      try {
        return new Loaded(loadFromJar(), null);
      } catch (IOException | LinkageError | RuntimeException e) {
        LOG.debug("Loading the tokenizers library from its jar failed, leaving it to DJL", e);
      }
      try {
        return new Loaded(loadByDjl(), null);
      } catch (LinkageError | RuntimeException e) {
        return new Loaded(null, e);
      }
    }
  }

  private NativeTokenizers() {}

  /**
   * The library.
   *
   * @throws EngineException if it can't be loaded on this machine
   */
  static TokenizersLibrary library() {
    if (Loaded.ONCE.failure != null) {
      throw new EngineException(
          "The native tokenizers library can't be loaded on "
              + System.getProperty("os.name")
              + ", "
              + System.getProperty("os.arch")
              + ". It is unpacked from the jar ai.djl.huggingface:tokenizers into java.io.tmpdir ("
              + System.getProperty("java.io.tmpdir")
              + "), from where the system must let libraries be loaded; that jar has builds for Linux"
              + " (x86_64, aarch64), macOS (aarch64) and Windows (x86_64).",
          Loaded.ONCE.failure);
    }
    return Loaded.ONCE.library;
  }

  /** A handle to a new native tokenizer, without truncation and padding whatever its file says. */
  static long create(TokenizersLibrary library, String json, String origin) {
    long handle;
    try {
      handle = library.createTokenizerFromString(json);
    } catch (RuntimeException e) {
      throw new ModelLoadException(
          origin
              + ": tokenizer.json can't be read as a Hugging Face tokenizer: "
              + e.getMessage()
              + ". Download the file again, or save it with a current tokenizers release.",
          e);
    }
    try {
      library.disableTruncation(handle);
      library.disablePadding(handle);
      return handle;
    } catch (RuntimeException e) {
      library.deleteTokenizer(handle);
      throw new EngineException("The native tokenizer refused its settings: " + e.getMessage(), e);
    }
  }

  private static TokenizersLibrary loadFromJar() throws IOException {
    Path folder = Files.createTempDirectory(FOLDER + ProcessHandle.current().pid() + "-");
    List<String> names = libraryNames();
    try {
      for (String name : names) {
        Path file = folder.resolve(name);
        String resource = "/native/lib/" + platform() + "/cpu/" + name;
        try (InputStream in = TokenizersLibrary.class.getResourceAsStream(resource)) {
          if (in == null) {
            throw new IOException(resource + " is not in the jar");
          }
          Files.copy(in, file);
        }
        System.load(file.toString());
      }
      requireBound();
      return TokenizersLibrary.LIB;
    } finally {
      deleteNowOrAtExit(folder, names);
    }
  }

  /** Native methods are bound only if their class and this one come from the same class loader. */
  private static void requireBound() {
    try {
      TokenizersLibrary.LIB.createTokenizerFromString("");
    } catch (RuntimeException expected) {
      LOG.trace("The tokenizers library answers", expected);
    }
  }

  /**
   * DJL's way: it takes the CPU build from the jar, whatever GPUs there are, where it believes
   * itself offline. The property is set back, so that an application which uses DJL too keeps its
   * settings.
   */
  private static TokenizersLibrary loadByDjl() {
    String property = "ai.djl.offline";
    String before = System.getProperty(property);
    System.setProperty(property, "true");
    try {
      LibUtils.checkStatus();
      return TokenizersLibrary.LIB;
    } finally {
      if (before == null) {
        System.clearProperty(property);
      } else {
        System.setProperty(property, before);
      }
    }
  }

  private static String platform() {
    String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
    String system = os.startsWith("win") ? "win" : os.startsWith("mac") ? "osx" : "linux";
    String arch = System.getProperty("os.arch");
    return system + "-" + (arch.equals("amd64") ? "x86_64" : arch);
  }

  /** In the order in which they are loaded. */
  private static List<String> libraryNames() {
    String own = System.mapLibraryName("tokenizers");
    return own.endsWith(".dll")
        ? List.of("libwinpthread-1.dll", "libgcc_s_seh-1.dll", "libstdc++-6.dll", own)
        : List.of(own);
  }

  /** A loaded library's file may go, except on Windows. */
  private static void deleteNowOrAtExit(Path folder, List<String> names) {
    folder.toFile().deleteOnExit();
    for (String name : names) {
      Path file = folder.resolve(name);
      try {
        Files.deleteIfExists(file);
      } catch (IOException e) {
        file.toFile().deleteOnExit();
      }
    }
    try {
      Files.deleteIfExists(folder);
    } catch (IOException e) {
      LOG.debug("{} stays until the JVM ends", folder);
    }
  }
}
