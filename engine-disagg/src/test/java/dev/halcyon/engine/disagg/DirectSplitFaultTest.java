package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import java.nio.file.Path;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The same where an engine copies straight from the other's cache. */
class DirectSplitFaultTest extends SplitFaultTest {

  @Override
  WatchedTransport openTransport() {
    return WatchedTransport.direct();
  }

  /** Cancels on either side before, while and after keys and values are copied. */
  @Test
  void cancelsAtAnyTimeLeaveNothingBehind(@TempDir Path directory) {
    Random random = new Random(11);
    int[] prompt = random.ints(240, 1, TinyCheckpoint.VOCAB).toArray();
    GenerationRequest request =
        GenerationRequest.of(prompt, SamplingParams.builder().maxTokens(3).ignoreEos(true).build());
    try (SplitRig rig =
        SplitRig.of(TinyCheckpoint.write(directory), Ends.inProcess(), b -> b.prefixReuse(false))) {
      Outcome expected = rig.whole(request);
      for (int i = 0; i < 150; i++) {
        GenerationHandle context = rig.submitContext(request);
        DisaggParams params = context.await().disaggParams();
        GenerationHandle rest = rig.decode.submit(request.toBuilder().disaggParams(params).build());
        LockSupport.parkNanos(random.nextInt(400_000));
        (i % 2 == 0 ? context : rest).cancel();
        try (GenerationResult result = rest.await()) {
          if (result.outputs().get(0).finishReason() != FinishReason.CANCELLED) {
            assertThat(result.outputs().get(0).tokenIds())
                .isEqualTo(expected.outputs().get(0).ids());
          }
        } catch (KvTransferException e) {
          assertThat(e.reason()).isIn(Reason.CANCELLED, Reason.UNKNOWN);
        }
        // One that was cancelled before it asked for the prompt left it on offer.
        context.cancel();
      }
      rig.assertClean();
      Outcome.of(
              rig.decode.submit(
                  request.toBuilder()
                      .disaggParams(rig.submitContext(request).await().disaggParams())
                      .build()))
          .assertSame(expected);
      rig.assertClean();
    }
  }
}
