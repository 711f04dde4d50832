package dev.halcyon.engine.backend;

import dev.halcyon.engine.EngineException;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.ServiceLoader;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Chooses among the backends on the class path. */
public final class BackendSelector {

  private static final Logger LOG = LoggerFactory.getLogger(BackendSelector.class);

  private final List<BackendProvider> providers;

  /** Chooses among {@code providers}. */
  public BackendSelector(List<BackendProvider> providers) {
    this.providers =
        providers.stream()
            .sorted(Comparator.comparingInt(BackendProvider::priority).reversed())
            .toList();
  }

  /** Chooses among the providers that {@link ServiceLoader} finds. */
  public static BackendSelector onClassPath() {
    return new BackendSelector(
        ServiceLoader.load(BackendProvider.class, BackendProvider.class.getClassLoader()).stream()
            .map(ServiceLoader.Provider::get)
            .collect(Collectors.toList()));
  }

  /** Opens the usable backend of the highest priority; one log line says why not a better one. */
  public Backend openBest(BackendOptions options) {
    for (BackendProvider provider : providers) {
      Optional<String> reason = provider.unavailable();
      if (reason.isEmpty()) {
        return provider.open(options);
      }
      LOG.info("The {} backend is not used: {}", provider.name(), reason.get());
    }
    throw new EngineException("No backend is usable; engine-core's own CPU backend is missing");
  }

  /**
   * Opens a backend by name; one log line says that a better one is passed over; whether that one
   * could be used is not looked into.
   *
   * @throws EngineException if there is none of that name, or it is not usable here
   */
  public Backend open(String name, BackendOptions options) {
    for (int i = 0; i < providers.size(); i++) {
      BackendProvider provider = providers.get(i);
      if (provider.name().equals(name)) {
        provider
            .unavailable()
            .ifPresent(
                reason -> {
                  throw new EngineException(
                      "The " + name + " backend was asked for and can't be used: " + reason);
                });
        providers
            .subList(0, i)
            .forEach(
                better ->
                    LOG.info("The {} backend is not used: {} was asked for", better.name(), name));
        return provider.open(options);
      }
    }
    throw new EngineException(
        "The "
            + name
            + " backend was asked for and is not on the class path; there are: "
            + providers.stream().map(BackendProvider::name).collect(Collectors.joining(", ")));
  }
}
