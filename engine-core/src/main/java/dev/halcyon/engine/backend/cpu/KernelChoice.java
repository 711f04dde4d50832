package dev.halcyon.engine.backend.cpu;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The one place that chooses between vectorised and plain kernels. The classes that use the vector
 * module are named in a nested class alone, so they are not loaded where the module is missing.
 */
final class KernelChoice {

  private static final Logger LOG = LoggerFactory.getLogger(KernelChoice.class);
  private static final String MODULE = "jdk.incubator.vector";

  private KernelChoice() {}

  /** The fastest kernels that this JVM can run, with a log line that says which and why. */
  static Kernels best() {
    return choose(ModuleLayer.boot().findModule(MODULE).isPresent());
  }

  static Kernels choose(boolean vectorModule) {
    if (!vectorModule) {
      LOG.info(
          "CPU kernels: plain Java, as the module {} is not there; --add-modules {} makes them several"
              + " times faster",
          MODULE,
          MODULE);
      return new ScalarKernels();
    }
    try {
      Kernels kernels = Vectorised.create();
      LOG.info("CPU kernels: {}", kernels.description());
      return kernels;
    } catch (LinkageError e) {
      LOG.warn(
          "CPU kernels: plain Java, as the module {} of Java {} does not work here",
          MODULE,
          Runtime.version(),
          e);
      return new ScalarKernels();
    }
  }

  /** A class of its own, so that verifying the outer one loads nothing of the vector module. */
  private static final class Vectorised {
    static Kernels create() {
      return new VectorKernels();
    }
  }
}
