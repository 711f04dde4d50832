package dev.halcyon.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * What an illegal address on the device does. It takes the device from the whole process, so a
 * process of its own runs it.
 */
@Tag("gpu")
class CudaFaultTest {

  @Test
  void aLostDeviceIsSaidOnceAndClosedQuietly() throws IOException, InterruptedException {
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                classPath(),
                Victim.class.getName())
            .redirectErrorStream(true)
            .start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor()).as(output).isZero();
    assertThat(output)
        .contains("synchronize: sticky=true")
        .contains("IllegalAddress")
        .contains("allocate: sticky=true")
        .contains("read: sticky=true")
        .contains("export: sticky=true")
        .doesNotContain("written")
        .contains("closed, 0 bytes used");
  }

  /** That of this process, whose test runner may load classes from elsewhere. */
  private static String classPath() {
    if (CudaFaultTest.class.getClassLoader() instanceof URLClassLoader loader) {
      return Arrays.stream(loader.getURLs())
          .map(URL::getPath)
          .collect(Collectors.joining(File.pathSeparator));
    }
    return System.getProperty("java.class.path");
  }

  /** The process that loses its device. */
  static final class Victim {

    public static void main(String[] args) {
      CudaBackend backend =
          TestBackends.open(new BackendOptions(1, 64 << 20, 1 << 20, 0), DType.F32);
      CudaBuffer out = backend.memory().allocate(4096, "a test");
      KvStorage kv = backend.allocateKv(new KvShape(1, 1, 4, 1, 8));
      CudaBuffer wild = CudaBuffer.of(4096, 4096, "no memory", () -> {});
      CudaMatrix table = new CudaMatrix("wild", DType.F32, DType.F32, 2, 4, wild);
      backend.embed(
          table,
          backend.upload(
              new dev.halcyon.engine.backend.Batch(
                  1,
                  new int[1],
                  new int[1],
                  new int[1],
                  1,
                  new int[] {0, 1},
                  new int[] {1},
                  new int[][] {{0}})),
          1,
          out);
      report("word", () -> kv.whenWritten(() -> System.out.println("written")));
      report("synchronize", backend::synchronize);
      report("allocate", () -> backend.memory().allocate(1 << 20, "more"));
      report("read", () -> backend.read(out, 0, 4, new float[4], 0));
      ByteBuffer tokens = ByteBuffer.allocate(64);
      report("export", () -> kv.exportTokens(0, new int[1], 0, 1, tokens));
      kv.close();
      out.close();
      backend.close();
      out.close();
      System.out.println("closed, " + backend.memory().used() + " bytes used");
    }

    private static void report(String what, Runnable call) {
      try {
        call.run();
        System.out.println(what + ": no error");
      } catch (CudaException e) {
        System.out.println(what + ": sticky=" + e.sticky() + " " + e.getMessage());
      }
    }
  }
}
