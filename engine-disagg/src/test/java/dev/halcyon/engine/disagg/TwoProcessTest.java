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
      for (int i = 0; i < 6; i++) {
        Outcome split = split(rig.decode, i, prefill.contextOf(i));
        split.assertSame(rig.whole(PrefillProcess.request(i)));
      }
      rig.assertClean();
      DisaggParams orphan = prefill.contextOf(6);
      prefill.kill();
      KvTransferException lost =
          catchThrowableOfType(KvTransferException.class, () -> split(rig.decode, 6, orphan));
      assertThat(lost.reason()).isEqualTo(Reason.PEER_LOST);
      rig.assertClean();
      // The decode engine goes on, with another peer too.
      try (PrefillProcess next = new PrefillProcess(kind, model)) {
        split(rig.decode, 7, next.contextOf(7)).assertSame(rig.whole(PrefillProcess.request(7)));
      }
      rig.assertClean();
    }
  }

  private static Outcome split(Engine decode, int number, DisaggParams params) {
    return Outcome.of(
        decode.submit(PrefillProcess.request(number).toBuilder().disaggParams(params).build()));
  }
}
