package dev.halcyon.engine.cuda;

import static dev.halcyon.engine.cuda.CudaErrors.check;
import static org.bytedeco.cuda.global.cudart.cudaDeviceGetAttribute;
import static org.bytedeco.cuda.global.cudart.cudaSetDevice;

import java.nio.charset.StandardCharsets;
import org.bytedeco.cuda.global.cudart;

/**
 * A GPU.
 *
 * @param index its number, from 0
 * @param name its name
 * @param major compute capability, as 9 of 9.0
 * @param minor compute capability, as 0 of 9.0
 * @param multiprocessors how many there are
 * @param sharedBytes the most shared memory that a block may ask for
 * @param cacheBytes the size of the cache that all multiprocessors share
 * @param memoryPools whether stream-ordered allocation is there
 */
record CudaDevice(
    int index,
    String name,
    int major,
    int minor,
    int multiprocessors,
    int sharedBytes,
    int cacheBytes,
    boolean memoryPools) {

  /** The least compute capability that the kernels are written for. */
  static final int LEAST_MAJOR = 8;

  static CudaDevice of(int index) {
    return new CudaDevice(
        index,
        name(index),
        attribute(cudart.cudaDevAttrComputeCapabilityMajor, index),
        attribute(cudart.cudaDevAttrComputeCapabilityMinor, index),
        attribute(cudart.cudaDevAttrMultiProcessorCount, index),
        attribute(cudart.cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
        attribute(cudart.cudaDevAttrL2CacheSize, index),
        attribute(cudart.cudaDevAttrMemoryPoolsSupported, index) != 0);
  }

  private static String name(int index) {
    byte[] name = new byte[256];
    check(cudart.cuDeviceGetName(name, name.length, index), "reading the name of GPU " + index);
    String text = new String(name, StandardCharsets.UTF_8);
    return text.substring(0, Math.max(0, text.indexOf('\0')));
  }

  private static int attribute(int attribute, int index) {
    int[] value = new int[1];
    check(cudaDeviceGetAttribute(value, attribute, index), "reading an attribute of GPU " + index);
    return value[0];
  }

  /** Why the engine can't run on it; null if it can. */
  String unusable() {
    if (major < LEAST_MAJOR) {
      return String.format(
          "%s has compute capability %d.%d, and at least %d.0 is needed",
          name, major, minor, LEAST_MAJOR);
    }
    return memoryPools ? null : name + "'s driver has no stream-ordered memory pools";
  }

  /** Makes this thread's calls go to this device. */
  void makeCurrent() {
    check(cudaSetDevice(index), "choosing GPU " + index);
  }
}
