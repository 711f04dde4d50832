package dev.halcyon.engine.executor;

import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendProvider;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.backend.StepLimits;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.HostMemory;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import dev.halcyon.engine.logits.OutOfHostMemoryException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Optional;
import java.util.function.Consumer;

/** A backend with a test's hand in everything that it does. */
final class RiggedBackend implements BackendProvider {

  /** The operation's name of an allocation of device memory. */
  static final String DEVICE = "device memory";

  /** The operation's name of an allocation of host memory. */
  static final String HOST = "host memory";

  /** What the storage of full context logits is for, up to the request's number. */
  static final String STORAGE = "context logits of ";

  /** Called before each operation and each allocation; the backend throws what it throws. */
  @FunctionalInterface
  interface Fault {

    /**
     * @param operation a method of the backend, {@link #DEVICE} or {@link #HOST}
     * @param purpose what an allocation is for, otherwise empty
     * @param bytes what an allocation asks for, otherwise 0
     */
    void check(String operation, String purpose, long bytes);
  }

  /** Lets everything pass. */
  static final Fault NONE = (operation, purpose, bytes) -> {};

  /** Leaves no room on the device for the storage of full context logits. */
  static final Fault NO_DEVICE_STORAGE =
      (operation, purpose, bytes) -> {
        if (operation.equals(DEVICE) && purpose.startsWith(STORAGE)) {
          throw RiggedBackend.outOfDevice(purpose, bytes);
        }
      };

  /** Steps that a backend runs before the first request. */
  @FunctionalInterface
  interface WarmUp {

    void run(StepLimits limits, Consumer<Batch> step);
  }

  private final BackendProvider provider;
  private volatile Fault fault = NONE;
  private WarmUp warmUp;
  private volatile long hostBudget = Long.MAX_VALUE;
  private Backend real;

  RiggedBackend(TestBackend backend) {
    provider = backend.provider();
  }

  void fault(Fault next) {
    fault = next;
  }

  /** Run in place of the backend's own by an engine that is opened from now on. */
  void warmUp(WarmUp steps) {
    warmUp = steps;
  }

  /** The most host memory that results may hold from now on. */
  void hostBudget(long bytes) {
    hostBudget = bytes;
  }

  /** The device memory in use. */
  long deviceUsed() {
    return real.memory().used();
  }

  /** The host memory in use. */
  long hostUsed() {
    return real.hostMemory().used();
  }

  /** What a device that has no room says. */
  static OutOfDeviceMemoryException outOfDevice(String purpose, long bytes) {
    return new OutOfDeviceMemoryException(purpose, bytes, 5);
  }

  @Override
  public String name() {
    return provider.name();
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Optional<String> unavailable() {
    return Optional.empty();
  }

  @Override
  public Backend open(BackendOptions options) {
    real = provider.open(options);
    DeviceMemory memory = new RiggedMemory(real.memory());
    HostMemory hostMemory = new RiggedHostMemory(real.hostMemory());
    return (Backend)
        Proxy.newProxyInstance(
            Backend.class.getClassLoader(),
            new Class<?>[] {Backend.class},
            (proxy, method, arguments) -> {
              switch (method.getName()) {
                case "memory":
                  return memory;
                case "hostMemory":
                  return hostMemory;
                case "warmUp":
                  warmUp((StepLimits) arguments[0], steps(arguments[1]));
                  return null;
                case "runStep":
                  // What a backend repeats from a recording, no fault would reach.
                  if (fault != NONE) {
                    fault.check("runStep", "", 0);
                    runBody(arguments);
                    return null;
                  }
                  break;
                default:
                  fault.check(method.getName(), "", 0);
              }
              try {
                return method.invoke(real, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  private void warmUp(StepLimits limits, Consumer<Batch> step) {
    if (warmUp == null) {
      real.warmUp(limits, step);
    } else {
      warmUp.run(limits, step);
    }
  }

  /** Runs the body of a step, operation by operation. */
  @SuppressWarnings("unchecked")
  static void runBody(Object[] arguments) {
    ((Consumer<DeviceBatch>) arguments[1]).accept((DeviceBatch) arguments[0]);
  }

  @SuppressWarnings("unchecked")
  private static Consumer<Batch> steps(Object argument) {
    return (Consumer<Batch>) argument;
  }

  private final class RiggedMemory implements DeviceMemory {

    private final DeviceMemory memory;

    RiggedMemory(DeviceMemory memory) {
      this.memory = memory;
    }

    @Override
    public DeviceBuffer allocate(long bytes, String purpose) {
      fault.check(DEVICE, purpose, bytes);
      return memory.allocate(bytes, purpose);
    }

    @Override
    public long capacity() {
      return memory.capacity();
    }

    @Override
    public long used() {
      return memory.used();
    }

    @Override
    public long peak() {
      return memory.peak();
    }

    @Override
    public long maxBufferBytes() {
      return memory.maxBufferBytes();
    }
  }

  private final class RiggedHostMemory implements HostMemory {

    private final HostMemory memory;

    RiggedHostMemory(HostMemory memory) {
      this.memory = memory;
    }

    @Override
    public HostBuffer allocate(long bytes, String purpose) {
      fault.check(HOST, purpose, bytes);
      if (bytes > hostBudget - memory.used()) {
        throw new OutOfHostMemoryException(purpose, bytes, hostBudget - memory.used());
      }
      return memory.allocate(bytes, purpose);
    }

    @Override
    public long capacity() {
      return Math.min(hostBudget, memory.capacity());
    }

    @Override
    public long used() {
      return memory.used();
    }

    @Override
    public long maxBufferBytes() {
      return memory.maxBufferBytes();
    }
  }
}
