package dev.halcyon.engine;

/**
 * A checkpoint can't be opened: a file is missing or damaged, or says something the engine can't
 * run.
 */
public final class ModelLoadException extends EngineException {

  public ModelLoadException(String message) {
    super(message);
  }

  public ModelLoadException(String message, Throwable cause) {
    super(message, cause);
  }
}
