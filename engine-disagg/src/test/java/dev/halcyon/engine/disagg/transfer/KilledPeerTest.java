package dev.halcyon.engine.disagg.transfer;

import static dev.halcyon.engine.disagg.transfer.KvTransportContract.soon;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.disagg.JavaProcess;
import dev.halcyon.engine.disagg.Waiting;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvTransport;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A process that is killed while a prompt is under way: the other side hears of it. */
@Timeout(60)
class KilledPeerTest {

  /** A token has 128 KiB a layer, so that a prompt takes many pieces. */
  private static final KvLayout LARGE = new KvLayout("model-a", "F32", 4, 4, 16, 1024, 1);

  private static final int TOKENS = 40;

  @ParameterizedTest
  @EnumSource
  void theContextSide(NetworkTransport kind) throws Exception {
    assumeAvailable(kind);
    try (JavaProcess peer = peer(kind, "none");
        KvTransport generation = kind.open(NetworkOptions.builder().listen(false).build())) {
      FakeSink sink = new FakeSink(LARGE, TOKENS, 0);
      generation.fetch(new KvDescriptor(bytes(peer.says())), sink);
      assertThat(peer.says()).isEqualTo("reading");
      peer.kill();
      assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.PEER_LOST);
    }
  }

  @ParameterizedTest
  @EnumSource
  void theGenerationSide(NetworkTransport kind) throws Exception {
    assumeAvailable(kind);
    try (KvTransport context = kind.open(NetworkOptions.builder().build())) {
      FakeSource source = new FakeSource(LARGE, TOKENS);
      byte[] descriptor = context.offer(source).descriptor().bytes();
      try (JavaProcess peer = peer(kind, new String(descriptor, StandardCharsets.UTF_8))) {
        assertThat(peer.says()).isEqualTo("receiving");
        peer.kill();
        assertThat(soon(source.ended())).isEqualTo("PEER_LOST");
      }
    }
  }

  private static void assumeAvailable(NetworkTransport kind) {
    Optional<String> reason = kind.unavailable();
    assumeTrue(reason.isEmpty(), () -> "no " + kind + ": " + reason.orElseThrow());
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /**
   * Another process, with one side of a transfer that does not end.
   *
   * @param descriptor what it fetches; "none" if it offers
   */
  private static JavaProcess peer(NetworkTransport kind, String descriptor) throws IOException {
    return JavaProcess.quick(KilledPeerTest.class, kind, descriptor);
  }

  /** The peer. */
  public static void main(String[] arguments) throws Exception {
    NetworkTransport kind = NetworkTransport.valueOf(arguments[0]);
    boolean offers = arguments[1].equals("none");
    try (KvTransport transport = kind.open(NetworkOptions.builder().listen(offers).build())) {
      if (offers) {
        FakeSource source = new FakeSource(LARGE, TOKENS).holding();
        byte[] descriptor = transport.offer(source).descriptor().bytes();
        JavaProcess.say(new String(descriptor, StandardCharsets.UTF_8));
        source.awaitReading();
        JavaProcess.say("reading");
      } else {
        FakeSink sink = new FakeSink(LARGE, TOKENS, 0).holding();
        transport.fetch(new KvDescriptor(bytes(arguments[1])), sink);
        Waiting.await("the sink has a piece", () -> sink.writes() > 0);
        JavaProcess.say("receiving");
      }
      JavaProcess.stay();
    }
  }
}
