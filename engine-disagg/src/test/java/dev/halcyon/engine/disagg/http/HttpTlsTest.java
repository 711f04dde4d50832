package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.RawHttp.readAll;
import static dev.halcyon.engine.disagg.RawHttp.write;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.TestKeys;
import dev.halcyon.engine.disagg.transfer.InProcessTransport;
import dev.halcyon.engine.transfer.KvTransport;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The service under https, with a certificate that the JDK's keytool makes. */
class HttpTlsTest {

  @TempDir private Path directory;

  @Test
  void servesHttpsAndNothingInTheClear() throws Exception {
    KeyStore keys = TestKeys.make(directory, "keys", "localhost", "san=ip:127.0.0.1");
    Path certificate = TestKeys.certificate(keys, directory.resolve("cert.pem"));
    Path key = TestKeys.privateKey(keys, directory.resolve("key.pem"));
    HttpOptions options = TestServer.options().tls(certificate, key).build();
    Path tiny = TinyCheckpoint.write(directory.resolve("tiny"));
    try (Engine engine = Engine.builder().model(tiny).threads(1).build();
        TestServer server = new TestServer(engine, options)) {
      String url = server.service.url();
      assertThat(url).startsWith("https://127.0.0.1:");
      HttpRequest health = HttpRequest.newBuilder(URI.create(url + "/health")).build();
      HttpResponse<String> answer =
          trusting(keys).send(health, HttpResponse.BodyHandlers.ofString());
      assertThat(answer.body()).isEqualTo("{\"status\":\"ok\"}");
      try (Socket clear = server.socket()) {
        write(clear, "GET /health HTTP/1.1\r\n\r\n");
        assertThat(readAll(clear)).doesNotContain("HTTP/1.1");
      }
    }
  }

  @Test
  void aDecodeServerAsksAPrefillServerUnderHttps() throws Exception {
    KeyStore keys = TestKeys.make(directory, "keys", "localhost", "san=ip:127.0.0.1");
    Path certificate = TestKeys.certificate(keys, directory.resolve("cert.pem"));
    Path key = TestKeys.privateKey(keys, directory.resolve("key.pem"));
    Path tiny = TinyCheckpoint.write(directory.resolve("tiny"));
    try (InProcessTransport transport = new InProcessTransport();
        Engine prefill = engine(tiny, transport);
        Engine decode = engine(tiny, transport);
        TestServer context =
            new TestServer(
                prefill,
                TestServer.options().tls(certificate, key).split(SplitOptions.prefill()).build())) {
      List<URI> urls = List.of(URI.create(context.service.url()));
      String body =
          "{\"prompt\": \"a\", \"max_tokens\": 3, \"disaggregated_params\": {\"request_type\":"
              + " \"generation_only\", \"schedule_style\": \"generation_first\","
              + " \"request_id\": \"r\", \"prefill\": \""
              + urls.get(0)
              + "\"}}";
      for (Path trust : new Path[] {certificate, null}) {
        SplitOptions split =
            new SplitOptions(
                SplitOptions.Role.DECODE, urls, null, trust, SplitOptions.MAX_HANDOVER_BYTES);
        try (TestServer server =
            new TestServer(decode, TestServer.options().split(split).build())) {
          assertThat(server.post("/v1/completions", body).statusCode())
              .isEqualTo(trust == null ? 503 : 200);
        }
      }
    }
  }

  private static Engine engine(Path model, KvTransport transport) {
    return Engine.builder().model(model).threads(1).kvTransport(transport).build();
  }

  private static HttpClient trusting(KeyStore keys) throws Exception {
    KeyStore trusted = KeyStore.getInstance("PKCS12");
    trusted.load(null, null);
    trusted.setCertificateEntry("a", keys.getCertificate("a"));
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    return HttpClient.newBuilder().sslContext(context).build();
  }
}
