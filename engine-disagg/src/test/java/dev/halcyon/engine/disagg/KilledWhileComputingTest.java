package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.codec.DisaggParamsCodec;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * A process that is killed while one engine computes a prompt and another fetches it. The engine
 * that is left says so, and has nothing left of the request; its next one is right.
 */
@Timeout(180)
class KilledWhileComputingTest {

  private static final DisaggParamsCodec CODEC =
      new DisaggParamsCodec(TinyCheckpoint.VOCAB, 1 << 24, 1 << 26);

  /** In chunks of 7. */
  private static final GenerationRequest REQUEST =
      GenerationRequest.of(
          new Random(8).ints(40, 1, TinyCheckpoint.VOCAB).toArray(),
          SamplingParams.builder().maxTokens(6).ignoreEos(true).returnContextLogits(true).build());

  @TempDir private Path directory;
  private Path model;

  @BeforeEach
  void write() {
    model = TinyCheckpoint.write(directory);
  }

  @ParameterizedTest
  @EnumSource
  void thePrefillEngine(NetworkTransport kind) throws Exception {
    assumeAvailable(kind);
    Leaks before = Leaks.since();
    FollowedTransport here = new FollowedTransport(Ends.listening(kind));
    try (SplitRig rig = SplitRig.of(model, here.ends(), KilledWhileComputingTest::chunks)) {
      Outcome expected = rig.whole(REQUEST);
      try (JavaProcess prefill = peer("prefill", kind)) {
        DisaggParams offer = CODEC.fromJsonBytes(bytes(prefill.says()), "offer");
        Leaks connected = Leaks.since();
        GenerationHandle rest = rig.decode.submit(following(offer));
        assertThat(prefill.says()).isEqualTo("standing");
        SplitRig.await("it has received", here::hasWritten);
        SplitRig.await("it receives", () -> rig.decode.metrics().receivingPrompts() == 1);
        prefill.kill();
        assertThat(failure(rest).reason()).isEqualTo(Reason.PEER_LOST);
        requireGood(rig, expected, connected);
      }
    }
    before.awaitNoThreads();
    before.awaitNoSockets();
  }

  @ParameterizedTest
  @EnumSource
  void theDecodeEngine(NetworkTransport kind) throws Exception {
    assumeAvailable(kind);
    Leaks before = Leaks.since();
    CountDownLatch gate = new CountDownLatch(1);
    FollowedTransport here = new FollowedTransport(Ends.listening(kind));
    try (SplitRig rig = SplitRig.of(model, here.ends(), KilledWhileComputingTest::chunks)) {
      Outcome expected = rig.whole(REQUEST);
      try (JavaProcess decode = peer("decode", kind)) {
        assertThat(decode.says()).isEqualTo("ready");
        Leaks connected = Leaks.since();
        here.standOnceRead(() -> {}, gate);
        GenerationHandle context = rig.submitOffering(REQUEST);
        DisaggParams offer = context.offer().get();
        decode.tell(new String(CODEC.toJsonBytes(offer), StandardCharsets.UTF_8));
        assertThat(decode.says()).isEqualTo("receiving");
        decode.kill();
        SplitRig.await("the loss is known", () -> here.events.contains("source PEER_LOST"));
        gate.countDown();
        assertThat(failure(context).reason()).isEqualTo(Reason.PEER_LOST);
        requireGood(rig, expected, connected);
      }
    }
    before.awaitNoThreads();
    before.awaitNoSockets();
  }

  /** The transport that has lost a peer serves both engines that are left. */
  private static void requireGood(SplitRig rig, Outcome expected, Leaks connected) {
    rig.assertClean();
    connected.awaitNoSockets();
    rig.overlapped(REQUEST).assertSame(expected);
    rig.split(REQUEST).assertSame(expected);
    rig.assertClean();
  }

  private static void assumeAvailable(NetworkTransport kind) {
    Optional<String> reason = kind.unavailable();
    assumeTrue(reason.isEmpty(), () -> "no " + kind + ": " + reason.orElseThrow());
  }

  private static KvTransferException failure(GenerationHandle handle) {
    return catchThrowableOfType(KvTransferException.class, handle::await);
  }

  private static GenerationRequest following(DisaggParams offer) {
    return REQUEST.toBuilder()
        .disaggParams(offer)
        .firstTokens(new CompletableFuture<>()) // which don't come
        .build();
  }

  private static EngineBuilder chunks(EngineBuilder builder) {
    return builder.maxBatchTokens(7).kvTransferTimeout(Duration.ofMinutes(5));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private JavaProcess peer(String part, NetworkTransport kind) throws Exception {
    return JavaProcess.quick(KilledWhileComputingTest.class, part, kind, model);
  }

  /** The process that is killed, with one of the two engines. */
  public static void main(String[] arguments) throws Exception {
    NetworkTransport kind = NetworkTransport.valueOf(arguments[1]);
    FollowedTransport transport = new FollowedTransport(Ends.listening(kind));
    Engine engine = chunks(SplitRig.engine(Path.of(arguments[2])).kvTransport(transport)).build();
    if (arguments[0].equals("prefill")) {
      transport.standOnceRead(() -> JavaProcess.say("standing"), new CountDownLatch(1));
      DisaggParams context = DisaggParams.contextOnly("r", ScheduleStyle.GENERATION_FIRST);
      GenerationHandle handle = engine.submit(REQUEST.toBuilder().disaggParams(context).build());
      byte[] offer = CODEC.toJsonBytes(handle.offer().join());
      JavaProcess.say(new String(offer, StandardCharsets.UTF_8));
    } else {
      JavaProcess.say("ready");
      BufferedReader in =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      engine.submit(following(CODEC.fromJsonBytes(bytes(in.readLine()), "offer")));
      Waiting.await("it has received", Duration.ofMinutes(2), transport::hasWritten);
      JavaProcess.say("receiving");
    }
    JavaProcess.stay();
  }
}
