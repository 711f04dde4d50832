package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static dev.halcyon.engine.disagg.router.RouterRig.code;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.net.ServerSocketFactory;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A router before https endpoints, with certificates that the JDK's keytool makes. */
class RouterTlsTest {

  private static final char[] PASSWORD = "password".toCharArray();

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
    managers.init(keys, PASSWORD);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(managers.getKeyManagers(), null, null);
    return context.getServerSocketFactory();
  }

  private Path pem(KeyStore keys) throws Exception {
    String text =
        Base64.getMimeEncoder(64, new byte[] {'\n'})
            .encodeToString(keys.getCertificate("a").getEncoded());
    return Files.writeString(
        directory.resolve("trusted.pem"),
        "-----BEGIN CERTIFICATE-----\n" + text + "\n-----END CERTIFICATE-----\n");
  }

  private KeyStore makeKeys(String name, String extension) throws Exception {
    Path store = directory.resolve(name + ".p12");
    Process keytool =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair",
                "-alias",
                "a",
                "-keyalg",
                "EC",
                "-dname",
                "CN=localhost",
                "-ext",
                extension,
                "-keystore",
                store.toString(),
                "-storetype",
                "PKCS12",
                "-storepass",
                new String(PASSWORD))
            .redirectErrorStream(true)
            .start();
    String output = new String(keytool.getInputStream().readAllBytes());
    assertThat(keytool.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(keytool.exitValue()).as(output).isZero();
    return KeyStore.getInstance(store.toFile(), PASSWORD);
  }
}
