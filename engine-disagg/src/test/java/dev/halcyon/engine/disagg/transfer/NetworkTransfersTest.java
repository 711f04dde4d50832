package dev.halcyon.engine.disagg.transfer;

import static dev.halcyon.engine.disagg.transfer.KvTransportContract.soon;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class NetworkTransfersTest {

  private static final NetworkOptions OPTIONS = NetworkOptions.builder().build();

  private final KvDescriptor descriptor =
      new PeerAddress("test", "127.0.0.1", 1, UUID.randomUUID()).descriptor();

  @Test
  void aConnectionThatFailsAtOnceEndsItsTransferAndTheNextMakesAnother() throws Exception {
    int[] tries = {0};
    NetworkTransfers transfers =
        new NetworkTransfers(
            "test",
            OPTIONS,
            (address, peer) ->
                peer.lost(new KvTransferException(Reason.PEER_LOST, "try " + ++tries[0])));
    for (int i = 1; i <= 2; i++) {
      FakeSink sink = new FakeSink(5, 0);
      transfers.fetch(descriptor, sink);
      assertThat(soon(sink.ended())).hasMessage("try " + i);
      assertThat(transfers.open()).isZero();
    }
  }

  @Test
  void aTransferThatIsThereAlreadyMakesNoOtherConnection() {
    int[] tries = {0};
    NetworkTransfers transfers =
        new NetworkTransfers("test", OPTIONS, (address, peer) -> tries[0]++);
    FakeSink first = new FakeSink(5, 0);
    transfers.fetch(descriptor, first);
    KvTransferException refused =
        catchThrowableOfType(
            KvTransferException.class, () -> transfers.fetch(descriptor, new FakeSink(5, 0)));
    assertThat(refused.reason()).isEqualTo(Reason.UNKNOWN);
    assertThat(tries[0]).isEqualTo(1);
    assertThat(transfers.open()).isEqualTo(1);
    transfers.shut();
    transfers.end();
    assertThat(first.ended()).isCompletedWithValueMatching(e -> e.reason() == Reason.CLOSED);
    assertThat(transfers.open()).isZero();
  }
}
