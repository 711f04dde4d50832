package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.halcyon.engine.EngineException;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** What is said where UCX, or its bindings, are missing; and that nothing else then is. */
class UcxUnavailableTest {

  @Test
  void unavailableAndTheConstructorSayTheSame() {
    Optional<String> reason = NetworkTransport.UCX.unavailable();
    Throwable thrown =
        catchThrowable(() -> NetworkTransport.UCX.open(NetworkOptions.builder().build()).close());
    if (reason.isEmpty()) {
      assertThat(thrown).isNull();
    } else {
      assertThat(thrown)
          .isInstanceOf(EngineException.class)
          .hasMessage("UCX was asked for and can't be used: " + reason.get());
    }
  }

  @Test
  void withoutBindingsItIsSaid() throws Exception {
    requireReason(null, "org.openucx:jucx is not on the class path");
  }

  /** Bindings whose native half isn't there, as on machines that jucx has none for. */
  @Test
  void withoutUcxItIsSaid() throws Exception {
    URL jar =
        Class.forName("org.openucx.jucx.UcxUtils")
            .getProtectionDomain()
            .getCodeSource()
            .getLocation();
    requireReason(jar, "UCX's libraries can't be loaded; install UCX (libucp): ");
  }

  /** Asks a transport that was loaded apart, with no more of UCX than a jar's classes. */
  private static void requireReason(URL bindings, String expected) throws Exception {
    URL classes = UcxTransport.class.getProtectionDomain().getCodeSource().getLocation();
    URL[] own = bindings == null ? new URL[] {classes} : new URL[] {classes, bindings};
    try (URLClassLoader apart = new WithoutNatives(own)) {
      Class<?> transport = apart.loadClass(UcxTransport.class.getName());
      assertThat(transport).isNotSameAs(UcxTransport.class);
      Optional<?> reason = (Optional<?>) transport.getMethod("unavailable").invoke(null);
      assertThat((String) reason.orElseThrow()).startsWith(expected);
      Class<?> options = apart.loadClass(NetworkOptions.class.getName());
      Object builder = options.getMethod("builder").invoke(null);
      Object built = builder.getClass().getMethod("build").invoke(builder);
      assertThatThrownBy(() -> transport.getConstructor(options).newInstance(built))
          .isInstanceOf(InvocationTargetException.class)
          .cause()
          .isInstanceOf(EngineException.class)
          .hasMessage("UCX was asked for and can't be used: " + reason.get());
    }
  }

  /** Loads this module and the bindings itself, but finds no native library. */
  private static final class WithoutNatives extends URLClassLoader {

    WithoutNatives(URL[] urls) {
      super(urls, UcxUnavailableTest.class.getClassLoader());
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      synchronized (getClassLoadingLock(name)) {
        if (!name.startsWith("org.openucx.") && !name.startsWith("dev.halcyon.engine.disagg.")) {
          return super.loadClass(name, resolve);
        }
        Class<?> loaded = findLoadedClass(name);
        return loaded != null ? loaded : findClass(name);
      }
    }

    @Override
    public URL getResource(String name) {
      if (name.startsWith("org/openucx/")) {
        return findResource(name);
      }
      return name.startsWith("libjucx") ? null : super.getResource(name);
    }

    @Override
    protected String findLibrary(String name) {
      return null;
    }
  }
}
