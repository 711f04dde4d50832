package dev.halcyon.engine.disagg;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A class of the tests that runs in a process of its own, and the lines that both say. */
public final class JavaProcess implements AutoCloseable {

  /** Marks lines that are meant: libraries write their own to the standard output. */
  private static final String MARK = "peer: ";

  private final Process process;
  private final BufferedReader said;
  private final PrintStream told;

  private JavaProcess(List<String> options, Class<?> main, Object... arguments) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(options);
    command.addAll(List.of("-Xmx512m", "-XX:+UseSerialGC"));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
    for (Object argument : arguments) {
      command.add(argument.toString());
    }
    process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    said =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    told = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
  }

  /**
   * One whose engine computes as those here do, to the bit.
   *
   * @param main has a main method
   */
  public static JavaProcess alike(Class<?> main, Object... arguments) throws IOException {
    boolean vectors = ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent();
    List<String> options = vectors ? List.of("--add-modules=jdk.incubator.vector") : List.of();
    return new JavaProcess(options, main, arguments);
  }

  /** One that starts sooner, and whose engine may round in another way. */
  public static JavaProcess quick(Class<?> main, Object... arguments) throws IOException {
    return new JavaProcess(List.of("-XX:TieredStopAtLevel=1"), main, arguments);
  }

  /** The next line that it {@linkplain #say says}. */
  public String says() throws IOException {
    for (String line = said.readLine(); line != null; line = said.readLine()) {
      if (line.startsWith(MARK)) {
        return line.substring(MARK.length());
      }
    }
    throw new IOException("the process has ended");
  }

  /** Writes a line to its standard input. */
  public void tell(String line) {
    told.println(line);
  }

  public void kill() throws InterruptedException {
    process.destroyForcibly().waitFor();
  }

  @Override
  public void close() throws InterruptedException {
    kill();
  }

  /** Says a line to the process that started this one. */
  public static void say(String line) {
    System.out.println(MARK + line);
    System.out.flush();
  }

  /** Keeps a process until the one that started it is gone, or kills it. */
  public static void stay() throws IOException {
    while (System.in.read() >= 0) {
      // Nobody tells it anything any more.
    }
    Runtime.getRuntime().halt(0);
  }
}
