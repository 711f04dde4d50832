package dev.halcyon.engine.disagg.transfer;

import io.netty.handler.ssl.ClientAuth;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import java.nio.file.Path;
import java.util.Objects;
import javax.net.ssl.SSLException;

/**
 * TLS between transports, each of which shows its certificate to the other. Who connects also
 * checks that the certificate names the host.
 *
 * @param certificate this side's certificate chain, PEM
 * @param key its private key, PKCS 8 in PEM
 * @param trusted the certificates that the other side's must lead to, PEM
 */
public record TcpTls(Path certificate, Path key, Path trusted) {

  public TcpTls {
    Objects.requireNonNull(certificate, "certificate");
    Objects.requireNonNull(key, "key");
    Objects.requireNonNull(trusted, "trusted");
  }

  SslContext server() {
    try {
      return SslContextBuilder.forServer(certificate.toFile(), key.toFile())
          .trustManager(trusted.toFile())
          .clientAuth(ClientAuth.REQUIRE)
          .build();
    } catch (SSLException | IllegalArgumentException e) {
      throw unusable(e);
    }
  }

  SslContext client() {
    try {
      return SslContextBuilder.forClient()
          .keyManager(certificate.toFile(), key.toFile())
          .trustManager(trusted.toFile())
          .endpointIdentificationAlgorithm("HTTPS")
          .build();
    } catch (SSLException | IllegalArgumentException e) {
      throw unusable(e);
    }
  }

  private static IllegalArgumentException unusable(Exception e) {
    return new IllegalArgumentException("TLS can't be set up: " + e.getMessage(), e);
  }
}
