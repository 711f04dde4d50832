package dev.halcyon.engine.benchmarks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

@EnabledOnOs({OS.LINUX, OS.MAC})
class PeersTest {

  private static final Workload WORKLOAD = new Workload(16, 64, List.of(1, 4), 512);

  @TempDir Path folder;

  @Test
  void readsALineAPeerAndKeepsTheReasonOfOneThatFailed() throws Exception {
    Path script =
        script(
            """
            echo '{"peer":"A","version":"1","threads":2,"setting":"s","decode":{"1":2.5},"prefill":9.5}'
            echo '{"peer":"B","version":"2","error":"does not run here"}'
            """);
    assertThat(measure(script))
        .containsExactly(
            new PeerResult("A", "1", "s", Map.of(1, 2.5), 9.5, null),
            new PeerResult("B", "2", null, null, null, "does not run here"));
  }

  @Test
  void givesTheScriptTheEnginesWorkload() throws Exception {
    Path script = script("printf '{\"peer\":\"%s\"}\\n' \"$(echo \"$@\" | tr '/' '_')\"\n");
    assertThat(measure(script).get(0).peer())
        .isEqualTo(
            "--checkpoint model --work work --threads 2 --prompt 16 --generate 64 --prefill 512"
                + " --batches 1,4");
  }

  @Test
  void aScriptThatFailsOrIsNotThereSaysSo() throws Exception {
    Path failing = script("exit 1\n");
    assertThatIllegalStateException()
        .isThrownBy(() -> measure(failing))
        .withMessageContaining("failed");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> measure(folder.resolve("absent")))
        .withMessageContaining("--peers-script");
  }

  private Path script(String body) throws Exception {
    return Files.writeString(folder.resolve("script"), body);
  }

  private static List<PeerResult> measure(Path script) throws Exception {
    return Peers.measure(script, Path.of("model"), Path.of("work"), null, 2, WORKLOAD);
  }
}
