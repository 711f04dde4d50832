package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Keys and self-signed certificates that the JDK's keytool makes, and their files in PEM. */
public final class TestKeys {

  public static final char[] PASSWORD = "password".toCharArray();

  private static final String ALIAS = "a";

  private TestKeys() {}

  /**
   * A key and its certificate.
   *
   * @param commonName whose it is said to be
   * @param extensions as keytool's -ext takes them
   */
  public static KeyStore make(Path directory, String file, String commonName, String... extensions)
      throws Exception {
    Path store = directory.resolve(file + ".p12");
    List<String> command =
        new ArrayList<>(
            List.of(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair",
                "-alias",
                ALIAS,
                "-keyalg",
                "EC",
                "-dname",
                "CN=" + commonName,
                "-keystore",
                store.toString(),
                "-storetype",
                "PKCS12",
                "-storepass",
                new String(PASSWORD)));
    for (String extension : extensions) {
      command.addAll(List.of("-ext", extension));
    }
    Process keytool = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(keytool.getInputStream().readAllBytes());
    assertThat(keytool.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(keytool.exitValue()).as(output).isZero();
    return KeyStore.getInstance(store.toFile(), PASSWORD);
  }

  /** Writes the certificate. */
  public static Path certificate(KeyStore keys, Path file) throws Exception {
    return pem(file, "CERTIFICATE", keys.getCertificate(ALIAS).getEncoded());
  }

  /** Writes the private key. */
  public static Path privateKey(KeyStore keys, Path file) throws Exception {
    return pem(file, "PRIVATE KEY", keys.getKey(ALIAS, PASSWORD).getEncoded());
  }

  private static Path pem(Path file, String kind, byte[] content) throws Exception {
    String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
    return Files.writeString(
        file, "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n");
  }
}
