package dev.halcyon.engine.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

class PrefixHasherTest {

  private final PrefixHasher hasher = new PrefixHasher(2);

  @Test
  void rootIsTheHashOfDomainMarkAndSaltInUtf16() throws Exception {
    byte[] domain = "halcyon kv prefix 1".getBytes(StandardCharsets.UTF_8);
    assertThat(bytes(hasher.root(null))).isEqualTo(sha256(domain, new byte[] {0}));
    assertThat(bytes(hasher.root(""))).isEqualTo(sha256(domain, new byte[] {1}));
    // U+0061 and U+20AC as little-endian 16-bit units.
    assertThat(bytes(hasher.root("a\u20ac")))
        .isEqualTo(sha256(domain, new byte[] {1, 0x61, 0, (byte) 0xac, 0x20}));
  }

  @Test
  void illFormedSaltsDiffer() {
    assertThat(hasher.root("\ud800")).isNotEqualTo(hasher.root("\ud801"));
    assertThat(hasher.root("\ud800")).isNotEqualTo(hasher.root("?"));
  }

  @Test
  void eachBlockIsChainedToThePreviousHash() throws Exception {
    TokenSource tokens = Tokens.of(1, 0x01020304, -1, 256);
    BlockHash root = hasher.root("s");
    BlockHash first = hasher.next(root, tokens, 0);
    byte[] expected = sha256(bytes(root), new byte[] {1, 0, 0, 0, 4, 3, 2, 1});
    assertThat(bytes(first)).isEqualTo(expected);
    assertThat(bytes(hasher.next(first, tokens, 1)))
        .isEqualTo(sha256(expected, new byte[] {-1, -1, -1, -1, 0, 1, 0, 0}));
  }

  @Test
  void hashKeepsTheDigestsBytes() {
    // SHA-256 of nothing, FIPS 180-4.
    String hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    BlockHash hash = BlockHash.of(HexFormat.of().parseHex(hex));
    assertThat(List.of(hash.a(), hash.d()))
        .containsExactly(0xe3b0c44298fc1c14L, 0xa495991b7852b855L);
    assertThat(HexFormat.of().formatHex(bytes(hash))).isEqualTo(hex);
  }

  private static byte[] bytes(BlockHash hash) {
    byte[] bytes = new byte[BlockHash.BYTES];
    hash.writeTo(bytes);
    return bytes;
  }

  private static byte[] sha256(byte[]... parts) throws Exception {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    for (byte[] part : parts) {
      all.write(part);
    }
    return MessageDigest.getInstance("SHA-256").digest(all.toByteArray());
  }
}
