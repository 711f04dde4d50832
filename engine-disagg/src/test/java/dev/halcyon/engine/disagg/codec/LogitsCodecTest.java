package dev.halcyon.engine.disagg.codec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.LogitsView;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class LogitsCodecTest {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final LogitsCodec CODEC = new LogitsCodec(3, 1 << 20);

  /** Every bit pattern of a 16-bit type, or those that matter of float32. */
  static LogitsTensor everyPattern(WireType type) {
    if (type == WireType.FLOAT32) {
      // Zero, minus zero, the least and the greatest denormal, infinities, quiet and signalling
      // NaN with a payload, the greatest finite number, 1, pi.
      int[] bits = {
        0,
        0x80000000,
        1,
        0x007fffff,
        0x7f800000,
        0xff800000,
        0x7fc00001,
        0x7f800001,
        0xffa12345,
        0x7f7fffff,
        0x3f800000,
        0x40490fdb
      };
      ByteBuffer data = ByteBuffer.allocate(48).order(ByteOrder.LITTLE_ENDIAN);
      for (int b : bits) {
        data.putInt(b);
      }
      return LogitsTensor.of(type, new int[] {4, 3}, data.array());
    }
    // 65536 = 3 * 21845 + 1, so two patterns come twice.
    ByteBuffer data = ByteBuffer.allocate(21846 * 3 * 2).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < 21846 * 3; i++) {
      data.putShort((short) i);
    }
    return LogitsTensor.of(type, new int[] {2, 10923, 3}, data.array());
  }

  @ParameterizedTest
  @EnumSource(WireType.class)
  void everyBitComesBack(WireType type) {
    LogitsTensor tensor = everyPattern(type);
    assertThat(CODEC.fromJsonBytes(CODEC.toJsonBytes(tensor), "logits")).isEqualTo(tensor);
    assertThat(CODEC.fromBinary(CODEC.toBinary(List.of(tensor)), "logits")).containsExactly(tensor);
  }

  @Test
  void severalSamplesComeBackInTheirOrder() {
    List<LogitsTensor> tensors =
        List.of(
            everyPattern(WireType.FLOAT32),
            everyPattern(WireType.BFLOAT16),
            LogitsTensor.of(WireType.FLOAT16, new int[] {1, 3}, new byte[] {1, 2, 3, 4, 5, 6}));
    ArrayNode array = JSON.createArrayNode();
    tensors.forEach(tensor -> array.add(CODEC.toJson(tensor)));
    assertThat(CODEC.listFromJson(array, "logits")).isEqualTo(tensors);
    assertThat(CODEC.fromBinary(CODEC.toBinary(tensors), "logits")).isEqualTo(tensors);
  }

  @Test
  void theJsonFormIsWhatItsDocumentationSays() {
    // 1.0f is 0x3f800000 and -2.0f is 0xc0000000: little-endian 00 00 80 3f 00 00 00 c0.
    LogitsTensor tensor =
        LogitsTensor.of(
            WireType.FLOAT32, new int[] {1, 2}, new byte[] {0, 0, -128, 63, 0, 0, 0, -64});
    assertThat(new String(CODEC.toJsonBytes(tensor), StandardCharsets.UTF_8))
        .isEqualTo("{\"data\":\"AACAPwAAAMA=\",\"shape\":[1,2],\"dtype\":\"float32\"}");
  }

  @Test
  void theBinaryFormIsWhatItsDocumentationSays() {
    LogitsTensor tensor =
        LogitsTensor.of(WireType.BFLOAT16, new int[] {1, 2}, new byte[] {1, 2, 3, 4});
    assertThat(CODEC.toBinary(List.of(tensor)))
        .containsExactly(
            'H', 'L', 'G', 'T', 1, 1, 0, 0, 0, 2, 2, 1, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4);
  }

  @Test
  void aViewGivesFloatsOfEveryType() {
    // By their formats: half 0x3c00 = 1, 0x0001 = 2^-24, 0xfc00 = -infinity; bfloat16 is the upper
    // half of a float.
    LogitsTensor half =
        LogitsTensor.of(WireType.FLOAT16, new int[] {1, 3}, new byte[] {0, 0x3c, 1, 0, 0, -4});
    float[] row = new float[3];
    half.view().copyRow(0, row);
    assertThat(row).containsExactly(1f, 0x1p-24f, Float.NEGATIVE_INFINITY);
    LogitsTensor brain =
        LogitsTensor.of(WireType.BFLOAT16, new int[] {1, 2}, new byte[] {-128, 63, 73, 64});
    brain.view().copyRow(0, row);
    assertThat(row[0]).isEqualTo(1f);
    assertThat(row[1]).isEqualTo(Float.intBitsToFloat(0x40490000));
    LogitsTensor full = everyPattern(WireType.FLOAT32);
    full.view().copyRow(2, row);
    assertThat(Float.floatToRawIntBits(row[0])).isEqualTo(0x7fc00001);
    assertThat(Float.floatToRawIntBits(full.view().row(3).get(2))).isEqualTo(0x40490fdb);
  }

  @Test
  void aTensorIsTheRowsOfAView() {
    LogitsTensor tensor = everyPattern(WireType.FLOAT32);
    assertThat(LogitsTensor.of(tensor.view())).isEqualTo(tensor);
    LogitsView closed = tensor.view();
    closed.close();
    assertThatThrownBy(closed::rows).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> tensor.view().copyRow(4, new float[3]))
        .isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> tensor.view().copyRow(0, new float[2]))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "dtype|\"float64\"|logits.dtype",
        "dtype|3|logits.dtype",
        "dtype|null|logits.dtype",
        "shape|[1]|logits.shape",
        "shape|[1,1,1,3]|logits.shape",
        "shape|[0,3]|logits.shape",
        "shape|[-1,3]|logits.shape",
        "shape|[1.0,3]|logits.shape",
        "shape|[4294967297,3]|logits.shape",
        "shape|[\"1\",3]|logits.shape",
        "shape|\"1,3\"|logits.shape",
        // The vocabulary is 3.
        "shape|[1,4]|logits.shape",
        // 2^31 - 1 squared times 3 overflows 64 bits.
        "shape|[2147483647,2147483647,3]|logits.shape",
        // 4 * 3 * 87382 = 2^20 + 8 bytes exceed the limit of 2^20.
        "shape|[87382,3]|logits.shape",
        "shape|[2,3]|logits.data",
        "data|\"AAAAAAAAAAAAAAAA\\n\"|logits.data",
        "data|\"AAAA!AAAAAAAAAAA\"|logits.data",
        "data|\"AAAAAAAAAAAAAAA=\"|logits.data",
        "data|\"\"|logits.data",
        "data|[1,2]|logits.data",
        "extra|1|logits.extra"
      })
  void whatIsWrongIsNamed(String key, String value, String field) throws Exception {
    ObjectNode sound =
        CODEC.toJson(LogitsTensor.of(WireType.FLOAT32, new int[] {1, 3}, new byte[12]));
    CODEC.fromJson(sound, "logits");
    sound.set(key, JSON.readTree(value));
    assertRefused(() -> CODEC.fromJson(sound, "logits"), field);
  }

  @ParameterizedTest
  @CsvSource({"data", "shape", "dtype"})
  void aMissingFieldIsNamed(String key) {
    ObjectNode sound =
        CODEC.toJson(LogitsTensor.of(WireType.FLOAT32, new int[] {1, 3}, new byte[12]));
    sound.remove(key);
    assertRefused(() -> CODEC.fromJson(sound, "logits"), "logits." + key);
  }

  @Test
  void strayBitsInTheLastCharacterAreRefused() {
    // One element of two bytes: "AAA=" has two stray bits in its last character, "AAB=" sets one.
    LogitsCodec any = new LogitsCodec(LogitsCodec.ANY_VOCABULARY, 100);
    LogitsTensor tensor = LogitsTensor.of(WireType.FLOAT16, new int[] {1, 1}, new byte[2]);
    ObjectNode object = any.toJson(tensor);
    assertThat(object.get("data").textValue()).isEqualTo("AAA=");
    object.put("data", "AAB=");
    assertRefused(() -> any.fromJson(object, "x"), "x.data");
    object.put("data", "AAAA");
    assertRefused(() -> any.fromJson(object, "x"), "x.data");
  }

  @Test
  void tensorsShareOneLimit() {
    // Two tensors of 12 bytes each fit 24 bytes, not 23.
    LogitsTensor tensor = LogitsTensor.of(WireType.FLOAT32, new int[] {1, 3}, new byte[12]);
    ArrayNode array = JSON.createArrayNode().add(CODEC.toJson(tensor)).add(CODEC.toJson(tensor));
    byte[] binary = CODEC.toBinary(List.of(tensor, tensor));
    LogitsCodec enough = new LogitsCodec(3, 24);
    LogitsCodec tight = new LogitsCodec(3, 23);
    assertThat(enough.listFromJson(array, "l")).hasSize(2);
    assertThat(enough.fromBinary(binary, "l")).hasSize(2);
    assertRefused(() -> tight.listFromJson(array, "l"), "l[1].shape");
    assertRefused(() -> tight.fromBinary(binary, "l"), "l[1].shape");
    assertRefused(() -> tight.listFromJson(JSON.createArrayNode(), "l"), "l");
    assertRefused(() -> tight.listFromJson(JSON.createObjectNode(), "l"), "l");
  }

  @Test
  void textThatIsNoJsonIsRefused() {
    for (String text : List.of("", "{", "nul", "{} {}", "{\"a\":1,\"a\":1}", "[".repeat(100))) {
      assertRefused(
          () -> CODEC.fromJsonBytes(text.getBytes(StandardCharsets.UTF_8), "body"), "body");
    }
    assertRefused(() -> new LogitsCodec(3, 12).fromJsonBytes(new byte[1 << 20], "body"), "body");
  }

  @Test
  void aDamagedBinaryHeaderIsNamed() {
    byte[] sound =
        CODEC.toBinary(List.of(LogitsTensor.of(WireType.FLOAT32, new int[] {1, 3}, new byte[12])));
    assertRefused(() -> CODEC.fromBinary(with(sound, b -> b[0] = 'h'), "b"), "b.magic");
    assertRefused(() -> CODEC.fromBinary(with(sound, b -> b[4] = 2), "b"), "b.version");
    assertRefused(() -> CODEC.fromBinary(with(sound, b -> b[8] = -1), "b"), "b");
    assertRefused(() -> CODEC.fromBinary(with(sound, b -> b[9] = 3), "b"), "b[0].dtype");
    assertRefused(() -> CODEC.fromBinary(with(sound, b -> b[10] = 1), "b"), "b[0].shape");
    assertRefused(() -> CODEC.fromBinary(with(sound, b -> b[14] = -1), "b"), "b[0].shape");
    assertRefused(() -> CODEC.fromBinary(with(sound, b -> b[11] = 2), "b"), "b[0].data");
    for (int length = 0; length < sound.length; length++) {
      byte[] cut = Arrays.copyOf(sound, length);
      assertThatThrownBy(() -> CODEC.fromBinary(cut, "b")).isInstanceOf(WireFormatException.class);
    }
    byte[] longer = Arrays.copyOf(sound, sound.length + 1);
    assertRefused(() -> CODEC.fromBinary(longer, "b"), "b");
  }

  @Test
  void randomTensorsComeBack() {
    Random random = new Random(5);
    LogitsCodec any = new LogitsCodec(LogitsCodec.ANY_VOCABULARY, 1 << 20);
    for (int i = 0; i < 200; i++) {
      WireType type = WireType.values()[random.nextInt(3)];
      int[] shape = {1 + random.nextInt(5), 1 + random.nextInt(40)};
      byte[] data = new byte[shape[0] * shape[1] * type.bytes()];
      random.nextBytes(data);
      LogitsTensor tensor = LogitsTensor.of(type, shape, data);
      assertThat(any.fromJsonBytes(any.toJsonBytes(tensor), "t")).isEqualTo(tensor);
      assertThat(any.fromBinary(any.toBinary(List.of(tensor)), "t")).containsExactly(tensor);
      assertThat(Base64.getDecoder().decode(any.toJson(tensor).get("data").textValue()))
          .isEqualTo(data);
    }
  }

  private static byte[] with(byte[] sound, Consumer<byte[]> change) {
    byte[] changed = sound.clone();
    change.accept(changed);
    return changed;
  }

  static void assertRefused(Runnable decode, String field) {
    assertThatThrownBy(decode::run)
        .isInstanceOfSatisfying(
            WireFormatException.class,
            e -> {
              assertThat(e.field()).isEqualTo(field);
              assertThat(e.getMessage()).startsWith(field + ": ");
            });
  }
}
