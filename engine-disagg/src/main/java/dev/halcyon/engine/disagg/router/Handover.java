package dev.halcyon.engine.disagg.router;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.io.IOException;

/**
 * What a prefill endpoint hands over to a decode endpoint, by way of a router that knows only where
 * it begins and ends.
 */
final class Handover {

  private static final JsonFactory JSON =
      JsonFactory.builder()
          .streamReadConstraints(
              StreamReadConstraints.builder()
                  .maxNestingDepth(64)
                  .maxStringLength(Integer.MAX_VALUE) // the answer is bounded as a whole
                  .build())
          .build();

  private final byte[] answer;
  private final int begin;
  private final int end;

  private Handover(byte[] answer, int begin, int end) {
    this.answer = answer;
    this.begin = begin;
    this.end = end;
  }

  /** Finds it in a prefill endpoint's answer; null if that is not what it should be. */
  static Handover find(byte[] answer) {
    Handover found = null;
    try (JsonParser parser = JSON.createParser(answer)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return null;
      }
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        boolean wanted = parser.currentName().equals(ClientBody.FIELD);
        JsonToken value = parser.nextToken();
        int begin = (int) parser.currentTokenLocation().getByteOffset();
        parser.skipChildren();
        if (wanted && value.isStructStart()) {
          found = new Handover(answer, begin, (int) parser.currentLocation().getByteOffset());
        }
      }
      return parser.nextToken() == null ? found : null;
    } catch (IOException e) {
      return null;
    }
  }

  ByteBuf value() {
    return Unpooled.wrappedBuffer(answer, begin, end - begin);
  }
}
