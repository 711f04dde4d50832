package dev.halcyon.engine.disagg.transfer;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Proves knowledge of a shared secret without sending it: HMAC-SHA256 over the prover's role and
 * both sides' nonces. Without a secret a proof is empty.
 */
final class SharedToken {

  static final String CLIENT = "client";
  static final String SERVER = "server";

  private final byte[] secret;
  private final SecureRandom random = new SecureRandom();

  /**
   * @param token null for none
   */
  SharedToken(String token) {
    this.secret = token == null ? null : token.getBytes(StandardCharsets.UTF_8);
  }

  byte[] nonce() {
    byte[] nonce = new byte[KvFrames.NONCE_BYTES];
    random.nextBytes(nonce);
    return nonce;
  }

  byte[] proof(String role, byte[] clientNonce, byte[] serverNonce) {
    if (secret == null) {
      return new byte[0];
    }
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      mac.update(role.getBytes(StandardCharsets.UTF_8));
      mac.update(clientNonce);
      return mac.doFinal(serverNonce);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java platform has HmacSHA256", e);
    }
  }

  /** Whether the other side, in a role, knows the same secret, or has none as this side. */
  boolean accepts(byte[] proof, String role, byte[] clientNonce, byte[] serverNonce) {
    return MessageDigest.isEqual(proof, proof(role, clientNonce, serverNonce));
  }
}
