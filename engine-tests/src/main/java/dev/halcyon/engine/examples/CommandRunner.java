package dev.halcyon.engine.examples;

import dev.halcyon.engine.EngineException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine;

/**
 * Runs a command, and says in a line of its own what went wrong: 2 for a wrong argument, 1 for
 * another failure.
 */
final class CommandRunner {

  /** The exit code of a command that could not do what it was asked. */
  static final int FAILED = 1;

  private static final int WRONG_ARGUMENT = 2;

  private CommandRunner() {}

  /**
   * @param name what errors begin with
   * @return the exit code
   */
  static int run(
      String name, Callable<Integer> command, PrintStream out, PrintStream err, String... args) {
    return new CommandLine(command)
        .setCaseInsensitiveEnumValuesAllowed(true)
        .setOut(new PrintWriter(out, true))
        .setParameterExceptionHandler(
            (e, rest) -> {
              err.println(name + ": " + e.getMessage() + " (see --help)");
              return WRONG_ARGUMENT;
            })
        .setExecutionExceptionHandler((e, line, parsed) -> report(name, e, err))
        .execute(args);
  }

  private static int report(String name, Exception e, PrintStream err) {
    boolean told = e instanceof EngineException || e instanceof IllegalArgumentException;
    err.println(name + ": " + (told ? e.getMessage() : e.toString()));
    return e instanceof IllegalArgumentException ? WRONG_ARGUMENT : FAILED;
  }
}
