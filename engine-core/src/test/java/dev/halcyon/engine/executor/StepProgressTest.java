package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.executor.StepProgress.Part;
import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.kvcache.KvCacheManager;
import dev.halcyon.engine.kvcache.TokenSource;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvProgress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Layers count once the cache says that they are written, and not after the step. */
class StepProgressTest {

  private static final KvManifest MANIFEST =
      KvManifest.of(new KvLayout("model", "I8", 1, 3, 1, 1, 1), new int[8]);

  /** What is to be done when the cache has written more. */
  private final Queue<Runnable> unwritten = new ArrayDeque<>();

  private final List<KvProgress> told = new ArrayList<>();
  private GrowingPrompt prompt;
  private StepProgress step;

  @BeforeEach
  void offerAndBegin() {
    prompt =
        new GrowingPrompt(
            MANIFEST,
            null,
            new TransferMailbox(() -> {}),
            why -> {
              throw new AssertionError(why);
            });
    prompt.offeredAs(
        new KvOffer() {
          @Override
          public KvDescriptor descriptor() {
            throw new UnsupportedOperationException();
          }

          @Override
          public void advanced() {
            told.add(prompt.progress());
          }

          @Override
          public void withdraw(KvTransferException why) {}
        });
    KvCacheManager kv = new KvCacheManager(16, 2, false);
    BlockTable table = kv.open(new Tokens(), 8, null, false);
    kv.grow(table, 8);
    step = new StepProgress(List.of(new Part(prompt, table, 2, 6)), unwritten::add);
  }

  private static final class Tokens implements TokenSource {
    @Override
    public int size() {
      return 8;
    }

    @Override
    public int token(int index) {
      return index;
    }
  }

  @Test
  void aLayerThatIsQueuedIsNotThereYet() {
    step.accept(0);
    step.accept(1);
    assertThat(prompt.progress()).isEqualTo(KvProgress.of(0));
    unwritten.remove().run();
    assertThat(told).containsExactly(new KvProgress(2, 1, 6));
    unwritten.remove().run();
    assertThat(told).containsExactly(new KvProgress(2, 1, 6), new KvProgress(2, 2, 6));
  }

  @Test
  void wordThatComesAfterTheStepIsNotHeard() {
    step.accept(0);
    step.accept(1);
    unwritten.remove().run();
    step.close();
    unwritten.remove().run();
    assertThat(told).containsExactly(new KvProgress(2, 1, 6));
    assertThat(prompt.progress()).isEqualTo(new KvProgress(2, 1, 6));
  }

  @Test
  void aStepWithoutPromptsOnOfferAsksForNoWord() {
    new StepProgress(List.of(), unwritten::add).accept(0);
    assertThat(unwritten).isEmpty();
  }
}
