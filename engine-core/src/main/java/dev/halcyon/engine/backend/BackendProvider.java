package dev.halcyon.engine.backend;

import java.util.Optional;

/** Finds and opens a kind of backend; found through {@link java.util.ServiceLoader}. */
public interface BackendProvider {

  /** The name by which a backend is asked for, in lower case, such as "cpu" or "cuda". */
  String name();

  /** Among usable providers the automatic choice takes the highest. */
  int priority();

  /** Why this backend can't be used on this machine; empty when it can. */
  Optional<String> unavailable();

  Backend open(BackendOptions options);
}
