package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static dev.halcyon.engine.disagg.router.RouterRig.code;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.disagg.TestKeys;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.List;
import javax.net.ServerSocketFactory;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A router before https endpoints, with certificates that the JDK's keytool makes. */
class RouterTlsTest {

  @TempDir private Path directory;

  @Test
  void endpointsAreCalledByHttpsAndHaveToBeTrusted() throws Exception {
    KeyStore keys = makeKeys("good", "san=ip:127.0.0.1");
    try (FakeEndpoint prefill = new FakeEndpoint("p", "https", sockets(keys));
        FakeEndpoint decode = new FakeEndpoint("d", "https", sockets(keys))) {
      try (RouterRig rig = rig(prefill, decode, pem(keys))) {
        for (int i = 0; i < 3; i++) {
          assertThat(rig.post(COMPLETIONS, BODY).statusCode()).isEqualTo(200);
        }
        assertThat(decode.requests(COMPLETIONS)).hasSize(3);
      }
      try (RouterRig rig = rig(prefill, decode, null)) {
        assertUntrusted(rig);
      }
    }
  }

  @Test
  void aCertificateForAnotherHostIsRefused() throws Exception {
    KeyStore keys = makeKeys("other", "san=dns:elsewhere.example");
    try (FakeEndpoint prefill = new FakeEndpoint("p", "https", sockets(keys));
        FakeEndpoint decode = new FakeEndpoint("d", "https", sockets(keys));
        RouterRig rig = rig(prefill, decode, pem(keys))) {
      assertUntrusted(rig);
    }
  }

  @Test
  void whatIsNoHttpsIsNoEndpoint() throws Exception {
    KeyStore keys = makeKeys("plain", "san=ip:127.0.0.1");
    try (FakeEndpoint plain = new FakeEndpoint("p")) {
      FakeEndpoint secure = new FakeEndpoint("d", "https", sockets(keys));
      secure.close();
      assertThat(plain.url().getScheme()).isEqualTo("http");
      assertThatThrownBy(
              () -> rig(plain, secure, Files.writeString(directory.resolve("no.pem"), "nothing")))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("endpointTrust");
    }
  }

  private static void assertUntrusted(RouterRig rig) {
    HttpResponse<String> response = rig.post(COMPLETIONS, BODY);
    assertThat(response.statusCode()).isEqualTo(503);
    assertThat(code(response)).isIn("endpoint_unreachable", "no_endpoint");
  }

  private static RouterRig rig(FakeEndpoint prefill, FakeEndpoint decode, Path trust) {
    return new RouterRig(
        0,
        0,
        options ->
            options
                .prefill(List.of(prefill.url()))
                .decode(List.of(decode.url()))
                .endpointTrust(trust));
  }

  private static ServerSocketFactory sockets(KeyStore keys) throws Exception {
    KeyManagerFactory managers =
        KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    managers.init(keys, TestKeys.PASSWORD);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(managers.getKeyManagers(), null, null);
    return context.getServerSocketFactory();
  }

  private Path pem(KeyStore keys) throws Exception {
    return TestKeys.certificate(keys, directory.resolve("trusted.pem"));
  }

  private KeyStore makeKeys(String name, String extension) throws Exception {
    return TestKeys.make(directory, name, "localhost", extension);
  }
}
