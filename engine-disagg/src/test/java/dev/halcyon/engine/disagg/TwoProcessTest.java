package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.transfer.NetworkOptions;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Prefill in another process: everything that crosses the border is on a wire. */
@Timeout(120)
class TwoProcessTest {

  /** With and without results of the prompt, one sample and three, greedy and seeded. */
  private static final int REQUESTS = 8;

  @TempDir private Path directory;

  @ParameterizedTest
  @EnumSource
  void requestsAreWhatOneEngineGivesUntilThePeerIsKilled(NetworkTransport kind) throws Exception {
    Optional<String> unavailable = kind.unavailable();
    assumeTrue(unavailable.isEmpty(), () -> "no " + kind + ": " + unavailable.orElseThrow());
    Path model = TinyCheckpoint.write(directory);
    NetworkOptions connect =
        NetworkOptions.builder().listen(false).token(PrefillProcess.TOKEN).build();
    Ends ends = Ends.of(kind.open(connect));
    try (PrefillProcess prefill = new PrefillProcess(kind, model);
        SplitRig rig = SplitRig.of(model, ends, builder -> builder)) {
      // The second time, the beginnings of prompts are in the caches of both processes.
      for (int i = 0; i < 2 * REQUESTS; i++) {
        int number = i % REQUESTS;
        Outcome split = split(rig.decode, number, prefill.contextOf(number));
        split.assertSame(rig.whole(PrefillProcess.request(number)));
        boolean cached = i >= REQUESTS && number % 2 == 1;
        assertThat(split.usage().cachedPromptTokens() > 0).as("request %d", i).isEqualTo(cached);
      }
      rig.assertClean();
      DisaggParams orphan = prefill.contextOf(8);
      prefill.kill();
      KvTransferException lost =
          catchThrowableOfType(KvTransferException.class, () -> split(rig.decode, 8, orphan));
      assertThat(lost.reason()).isEqualTo(Reason.PEER_LOST);
      rig.assertClean();
      // The decode engine goes on, with another peer too.
      try (PrefillProcess next = new PrefillProcess(kind, model)) {
        split(rig.decode, 9, next.contextOf(9)).assertSame(rig.whole(PrefillProcess.request(9)));
      }
      rig.assertClean();
    }
  }

  private static Outcome split(Engine decode, int number, DisaggParams params) {
    return Outcome.of(
        decode.submit(PrefillProcess.request(number).toBuilder().disaggParams(params).build()));
  }
}
