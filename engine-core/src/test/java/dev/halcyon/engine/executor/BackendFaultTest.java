package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineFailedException;
import dev.halcyon.engine.EngineOptions;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.BackendOptions;
import dev.halcyon.engine.backend.BackendProvider;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Operations of the backend that fail in the middle of a step. */
@Timeout(60)
@TestInstance(Lifecycle.PER_CLASS)
public class BackendFaultTest {

  /** What the engines compute on. */
  protected TestBackend backend() {
    return TestBackend.CPU;
  }

  private static final SamplingParams GREEDY =
      SamplingParams.builder().temperature(0f).maxTokens(12).ignoreEos(true).build();

  @TempDir static Path directory;
  private static EngineOptions options;

  @BeforeAll
  void writeCheckpoint() {
    Path checkpoint = TinyCheckpoint.write(directory.resolve("tiny"));
    EngineBuilder builder =
        backend()
            .engine()
            .model(checkpoint)
            .threads(1)
            .maxBatchSize(4)
            .maxBatchTokens(8)
            .kvCacheTokens(512)
            .integrityChecks(true);
    options = TestBackend.options(builder);
  }

  /** A backend with one operation that fails on its n-th call from now, once armed. */
  private static final class Faulty implements BackendProvider {

    private final BackendProvider provider;
    private final String operation;
    private final Supplier<Throwable> fault;
    private final AtomicInteger callsUntilFault = new AtomicInteger(Integer.MAX_VALUE);
    private Backend real;

    Faulty(TestBackend backend, String operation, Supplier<Throwable> fault) {
      this.provider = backend.provider();
      this.operation = operation;
      this.fault = fault;
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
    public Backend open(BackendOptions backendOptions) {
      real = provider.open(backendOptions);
      return (Backend)
          Proxy.newProxyInstance(
              Backend.class.getClassLoader(),
              new Class<?>[] {Backend.class},
              (proxy, method, arguments) -> {
                if (method.getName().equals(operation) && callsUntilFault.getAndDecrement() == 1) {
                  throw fault.get();
                }
                if (method.getName().equals("runStep")) {
                  RiggedBackend.runBody(arguments);
                  return null;
                }
                try {
                  return method.invoke(real, arguments);
                } catch (InvocationTargetException e) {
                  throw e.getCause();
                }
              });
    }
  }

  private static GenerationHandle submit(OpenModel model, int first) {
    return model
        .executor()
        .submit(GenerationRequest.of(new int[] {first, 7, 9}, GREEDY), new int[] {first, 7, 9});
  }

  /** For every operation of a step, and for the first calls of each. */
  @Test
  void memoryThatRunsOutInAStepFailsItsRequestsAndNothingElse() {
    for (String operation :
        List.of("upload", "embed", "linear", "attention", "ropeAndWriteKv", "sample")) {
      for (int call = 1; call <= 9; call += 2) {
        Faulty faulty =
            new Faulty(backend(), operation, () -> new OutOfDeviceMemoryException("a test", 77, 5));
        OpenModel model = OpenModel.open(options, new BackendSelector(List.of(faulty)));
        List<Integer> expected = submit(model, 3).await().outputs().get(0).tokenIds();
        faulty.callsUntilFault.set(call);
        int failed = 0;
        List<GenerationHandle> handles = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
          handles.add(submit(model, 3));
        }
        for (GenerationHandle handle : handles) {
          try {
            assertThat(handle.await().outputs().get(0).tokenIds()).isEqualTo(expected);
          } catch (RequestOutOfMemoryException e) {
            assertThat(e).hasMessageContaining("77 bytes").hasMessageContaining("a test");
            failed++;
          }
        }
        assertThat(failed).as(operation + " " + call).isBetween(1, 4);
        GenerationResult after = submit(model, 3).await();
        assertThat(after.outputs().get(0).tokenIds()).isEqualTo(expected);
        assertThat(model.executor().metrics().freeBlocks())
            .isEqualTo(model.executor().metrics().totalBlocks());
        model.executor().close();
        assertThat(faulty.real.memory().used()).isZero();
      }
    }
  }

  /**
   * From some call on every call fails, as on a device that lost its state, while requests hold
   * results there. Each operation of a step is where it shows first.
   */
  @Test
  void aLostDeviceFailsTheEngineOnceWhereverItShowsFirst() {
    SamplingParams full =
        SamplingParams.builder()
            .temperature(0f)
            .maxTokens(12)
            .ignoreEos(true)
            .returnContextLogits(true)
            .build();
    for (String first :
        List.of("upload", "embed", "linear", "attention", "sample", "synchronize", "copy")) {
      RiggedBackend backend = new RiggedBackend(backend());
      OpenModel model = OpenModel.open(options, new BackendSelector(List.of(backend)));
      submit(model, 3).await();
      AtomicBoolean lost = new AtomicBoolean();
      AtomicInteger left = new AtomicInteger(3);
      CountDownLatch submitted = new CountDownLatch(1);
      backend.fault(
          (operation, purpose, bytes) -> {
            // No request ends before the last one has come, however fast steps are.
            if (operation.equals("upload")) {
              awaitUninterruptibly(submitted);
            }
            if (operation.equals(first) && left.getAndDecrement() == 1) {
              lost.set(true);
            }
            // These say nothing of the device.
            if (lost.get() && !operation.equals("close") && !operation.equals("isWorker")) {
              throw new LostDevice();
            }
          });
      List<GenerationHandle> handles = new ArrayList<>();
      for (int i = 0; i < 6; i++) {
        handles.add(
            model
                .executor()
                .submit(GenerationRequest.of(new int[] {3, 7, 9}, full), new int[] {3, 7, 9}));
      }
      submitted.countDown();
      for (GenerationHandle handle : handles) {
        assertThatThrownBy(handle::await)
            .isInstanceOf(EngineFailedException.class)
            .hasMessageContaining("lost its state")
            .hasCauseInstanceOf(LostDevice.class);
      }
      assertThatThrownBy(() -> submit(model, 3))
          .isInstanceOf(EngineFailedException.class)
          .hasMessageContaining("lost its state");
      model.executor().close();
      assertThat(backend.deviceUsed()).as(first).isZero();
      assertThat(model.executor().metrics().deviceMemory().total()).isZero();
    }
  }

  private static void awaitUninterruptibly(CountDownLatch latch) {
    try {
      assertThat(latch.await(1, TimeUnit.MINUTES)).isTrue();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** As a device's own exception is: an {@link EngineException}. */
  private static final class LostDevice extends EngineException {

    LostDevice() {
      super("The device lost its state");
    }
  }

  @Test
  void aBrokenBackendFailsTheEngineOnceAndTellsEverybody() {
    Faulty faulty =
        new Faulty(backend(), "attention", () -> new IllegalStateException("lost device"));
    OpenModel model = OpenModel.open(options, new BackendSelector(List.of(faulty)));
    submit(model, 3).await();
    faulty.callsUntilFault.set(5);
    List<GenerationHandle> handles = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      try {
        handles.add(submit(model, 3));
      } catch (EngineFailedException e) {
        assertThat(handles).as("the first one is still taken").isNotEmpty();
      }
    }
    for (GenerationHandle handle : handles) {
      assertThatThrownBy(handle::await)
          .isInstanceOf(EngineFailedException.class)
          .hasMessageContaining("lost device");
    }
    assertThatThrownBy(() -> submit(model, 3))
        .isInstanceOf(EngineFailedException.class)
        .hasMessageContaining("lost device");
    model.executor().close();
    model.executor().close();
    assertThat(faulty.real.memory().used()).isZero();
  }
}
