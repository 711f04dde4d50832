package dev.halcyon.engine.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GenerateCommandTest {

  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream err = new ByteArrayOutputStream();

  /** The text is the greedy one that transformers gives for the embedded model's reference. */
  @Test
  void continuesThePrompt() {
    String prompt = "Once upon a time";
    assertThat(run("--temperature", "0", "--stop", " Lily", prompt)).isZero();
    assertThat(text(out).stripTrailing())
        .isEqualTo("Once upon a time, there was a little girl named");
    assertThat(text(err))
        .containsPattern(
            "\\A\\d+ tokens, \\d+\\.\\d tokens/s, first token after \\d+ ms, finished: STOP");
    assertThat(text(err).lines()).hasSize(1);
  }

  @Test
  void leavesThePromptOutWhenAsked() {
    assertThat(run("--temperature", "0", "--max-tokens", "4", "--no-echo", "The cat")).isZero();
    // Of ' was very happy. He had a big smile', 4 tokens.
    assertThat(text(out)).startsWith(" was very happy").doesNotContain("cat");
    assertThat(text(err)).startsWith("4 tokens, ").contains("finished: LENGTH");
  }

  @Test
  void givesTheSameTextForTheSameSeed() {
    String[] arguments = {"--seed", "7", "--max-tokens", "24", "--temperature", "1", "The cat"};
    assertThat(run(arguments)).isZero();
    String first = text(out);
    out.reset();
    assertThat(run(arguments)).isZero();
    assertThat(text(out)).isEqualTo(first);
  }

  @ParameterizedTest
  @CsvSource({
    "--max-tokens=0 hi, maxTokens",
    "--max-tokens=x hi, --max-tokens",
    "--top-p=0 hi, topP",
    "--temperature=NaN hi, temperature",
    "--threads=0 hi, threads",
    "--backend=tpu hi, --backend",
    "--device=-1 hi, device",
    "--dtype=f64 hi, --dtype",
    "--stop= hi, stop",
    "--nonsense hi, --nonsense",
    "--seed 1, PROMPT",
  })
  void namesAWrongArgumentInOneLine(String arguments, String named) {
    assertThat(run(arguments.split(" "))).isEqualTo(2);
    assertThat(text(err)).startsWith("generate: ").contains(named);
    assertThat(text(err).lines()).hasSize(1);
    assertThat(text(out)).isEmpty();
  }

  @Test
  void runsOnTheBackendThatIsAskedFor() {
    String[] arguments = {
      "--temperature=0", "--max-tokens=2", "--backend=cpu", "--dtype=f32", "hi"
    };
    assertThat(run(arguments)).isZero();
    assertThat(text(err).stripTrailing()).endsWith("on: cpu");
  }

  @Test
  void saysWhyTheBackendCantDoWhatIsAskedFor() {
    assertThat(run("--backend=cpu", "--dtype=bf16", "hi")).isNotZero();
    assertThat(text(err)).startsWith("generate: ").contains("BF16");
    assertThat(text(err).lines()).hasSize(1);
  }

  @Test
  void namesACheckpointThatIsNotThere(@TempDir Path folder) {
    Path missing = folder.resolve("nothing-here");
    assertThat(run("--model", missing.toString(), "hi")).isEqualTo(1);
    assertThat(text(err)).startsWith("generate: ").contains("nothing-here");
    assertThat(text(err).lines()).hasSize(1);
  }

  @Test
  void endsWhenNobodyReadsOn() {
    OutputStream closed =
        new OutputStream() {
          @Override
          public void write(int b) throws IOException {
            throw new IOException("broken pipe");
          }
        };
    PrintStream broken = new PrintStream(closed, false, StandardCharsets.UTF_8);
    assertThat(GenerateCommand.run(broken, print(err), "--max-tokens=500", "The cat")).isEqualTo(1);
    assertThat(text(err)).isEmpty();
  }

  private int run(String... arguments) {
    return GenerateCommand.run(print(out), print(err), arguments);
  }

  private static PrintStream print(OutputStream to) {
    return new PrintStream(to, true, StandardCharsets.UTF_8);
  }

  private static String text(ByteArrayOutputStream bytes) {
    return bytes.toString(StandardCharsets.UTF_8);
  }
}
