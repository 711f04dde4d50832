package dev.halcyon.engine.benchmarks;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Runs scripts/peers/run, which measures other engines on the same checkpoint. */
final class Peers {

  private static final ObjectMapper JSON = new ObjectMapper();

  private Peers() {}

  /**
   * The peers' results, those that failed with their reason.
   *
   * @param javaHome a JDK of 21 or later, or null for the script's own choice
   */
  static List<PeerResult> measure(
      Path script, Path checkpoint, Path work, Path javaHome, int threads, Workload workload)
      throws IOException, InterruptedException {
    if (!Files.isRegularFile(script)) {
      throw new IllegalArgumentException(
          "there is no " + script + "; run from the top of the project, or give --peers-script");
    }
    List<String> command = new ArrayList<>(List.of("bash", script.toString()));
    command.addAll(List.of("--checkpoint", checkpoint.toString(), "--work", work.toString()));
    if (javaHome != null) {
      command.addAll(List.of("--java-home", javaHome.toString()));
    }
    command.addAll(List.of("--threads", Integer.toString(threads)));
    command.addAll(List.of("--prompt", Integer.toString(workload.promptTokens())));
    command.addAll(List.of("--generate", Integer.toString(workload.generatedTokens())));
    command.addAll(List.of("--prefill", Integer.toString(workload.prefillTokens())));
    String batches = String.join(",", workload.batches().stream().map(String::valueOf).toList());
    command.addAll(List.of("--batches", batches));
    Process process =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    List<PeerResult> results = read(process);
    if (process.waitFor() != 0) {
      throw new IllegalStateException(script + " failed; its message is above");
    }
    return results;
  }

  private static List<PeerResult> read(Process process) throws IOException {
    List<PeerResult> results = new ArrayList<>();
    try (BufferedReader lines =
        new BufferedReader(
            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        results.add(JSON.readValue(line, PeerResult.class));
      }
    }
    return results;
  }
}
