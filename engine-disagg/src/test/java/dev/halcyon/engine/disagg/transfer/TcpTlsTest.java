package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.disagg.TestKeys;
import java.nio.file.Path;
import java.security.KeyStore;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Connections under TLS, with certificates that the JDK's keytool makes. */
class TcpTlsTest {

  @TempDir private static Path directory;

  @BeforeAll
  static void makeCertificates() throws Exception {
    make("good", "ip:127.0.0.1");
    make("stranger", "ip:127.0.0.1");
    make("elsewhere", "dns:elsewhere.example");
  }

  @Test
  void bothSidesTrusted() throws Exception {
    FakeSink sink = fetch(tls("good", "good"), tls("good", "good"));
    assertThat(KvTransportContract.soon(sink.ended())).isNull();
    sink.requireComplete();
  }

  @Test
  void aServerThatIsNotTrustedIsRefused() throws Exception {
    assertThat(end(tls("stranger", "good"), tls("good", "good")).reason())
        .isEqualTo(Reason.REFUSED);
  }

  @Test
  void aClientThatIsNotTrustedIsRefused() throws Exception {
    // With TLS 1.3 the client is done before the server has judged it.
    assertThat(end(tls("good", "good"), tls("stranger", "good")).reason())
        .isIn(Reason.REFUSED, Reason.PEER_LOST);
  }

  @Test
  void aCertificateForAnotherHostIsRefused() throws Exception {
    assertThat(end(tls("elsewhere", "good"), tls("good", "elsewhere")).reason())
        .isEqualTo(Reason.REFUSED);
  }

  @Test
  void aClientInTheClearIsCutOff() throws Exception {
    assertThat(end(tls("good", "good"), null).reason()).isEqualTo(Reason.PEER_LOST);
  }

  @Test
  void filesThatAreNotThereAreSaid() {
    Path none = directory.resolve("none");
    assertThatThrownBy(
            () ->
                new TcpTransport(
                    NetworkOptions.builder().tls(new TcpTls(none, none, none)).build()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("TLS can't be set up");
  }

  private static KvTransferException end(TcpTls server, TcpTls client) throws Exception {
    return KvTransportContract.soon(fetch(server, client).ended());
  }

  private static FakeSink fetch(TcpTls server, TcpTls client) throws Exception {
    try (TcpTransport context = new TcpTransport(NetworkOptions.builder().tls(server).build());
        TcpTransport generation =
            new TcpTransport(NetworkOptions.builder().listen(false).tls(client).build())) {
      FakeSink sink = new FakeSink(100, 0);
      generation.fetch(context.offer(new FakeSource(100)).descriptor(), sink);
      KvTransportContract.soon(sink.ended());
      return sink;
    }
  }

  private static TcpTls tls(String own, String trusted) {
    return new TcpTls(
        directory.resolve(own + ".crt"),
        directory.resolve(own + ".key"),
        directory.resolve(trusted + ".crt"));
  }

  private static void make(String name, String subject) throws Exception {
    KeyStore keys = TestKeys.make(directory, name, name, "san=" + subject, "bc:c");
    TestKeys.privateKey(keys, directory.resolve(name + ".key"));
    TestKeys.certificate(keys, directory.resolve(name + ".crt"));
  }
}
