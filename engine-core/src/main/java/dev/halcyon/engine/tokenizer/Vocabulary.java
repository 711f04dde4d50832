package dev.halcyon.engine.tokenizer;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalInt;

/**
 * What the engine must know of tokenizer.json besides what the native library does with it: which
 * ids there are, which are special, and the ids of a few tokens by name. Read as a stream, because
 * these files reach tens of megabytes.
 */
final class Vocabulary {

  private final BitSet ids = new BitSet();
  private final BitSet special = new BitSet();
  private final Map<String, Integer> wanted = new HashMap<>();

  /** Of tokens that may be part of a character only: their bytes. */
  private final Map<Integer, byte[]> partial = new HashMap<>();

  private final Collection<String> wantedNames;
  private boolean postProcessor;

  private Vocabulary(Collection<String> wantedNames) {
    this.wantedNames = wantedNames;
  }

  /**
   * @param wantedNames the tokens to remember the ids of
   * @throws IOException if the file is no JSON
   */
  static Vocabulary read(byte[] tokenizerJson, Collection<String> wantedNames) throws IOException {
    Vocabulary vocabulary = new Vocabulary(wantedNames);
    try (JsonParser parser = new JsonFactory().createParser(tokenizerJson)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        throw new IOException("it is not a JSON object");
      }
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String field = parser.currentName();
        JsonToken value = parser.nextToken();
        if (field.equals("added_tokens") && value == JsonToken.START_ARRAY) {
          vocabulary.readAddedTokens(parser);
        } else if (field.equals("model") && value == JsonToken.START_OBJECT) {
          vocabulary.readModel(parser);
        } else {
          vocabulary.postProcessor |=
              field.equals("post_processor") && value == JsonToken.START_OBJECT;
          parser.skipChildren();
        }
      }
    }
    return vocabulary;
  }

  boolean contains(int id) {
    return ids.get(id);
  }

  /**
   * The bytes of a token of which decoding gives U+FFFD, because they are no whole characters, or
   * null. Of tokens that decoding gives text of it may say anything: what a name stands for depends
   * on the tokenizer's kind.
   */
  byte[] partialBytes(int id) {
    return partial.get(id);
  }

  boolean isSpecial(int id) {
    return special.get(id);
  }

  /** One more than the highest id. */
  int size() {
    return ids.length();
  }

  /** Whether the file says what to put around a text. */
  boolean hasPostProcessor() {
    return postProcessor;
  }

  OptionalInt idOf(String wantedName) {
    Integer id = wanted.get(wantedName);
    return id == null ? OptionalInt.empty() : OptionalInt.of(id);
  }

  private void readAddedTokens(JsonParser parser) throws IOException {
    while (parser.nextToken() == JsonToken.START_OBJECT) {
      int id = -1;
      String content = null;
      boolean isSpecial = false;
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String field = parser.currentName();
        parser.nextToken();
        switch (field) {
          case "id" -> id = parser.getIntValue();
          case "content" -> content = parser.getText();
          case "special" -> isSpecial = parser.getBooleanValue();
          default -> parser.skipChildren();
        }
      }
      add(content, id);
      if (isSpecial) {
        special.set(id);
      }
    }
  }

  private void readModel(JsonParser parser) throws IOException {
    while (parser.nextToken() == JsonToken.FIELD_NAME) {
      String field = parser.currentName();
      JsonToken value = parser.nextToken();
      if (field.equals("vocab") && value == JsonToken.START_OBJECT) {
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
          String content = parser.currentName();
          parser.nextToken();
          add(content, parser.getIntValue());
        }
      } else if (field.equals("vocab") && value == JsonToken.START_ARRAY) {
        readScoredVocabulary(parser);
      } else {
        parser.skipChildren();
      }
    }
  }

  /** The unigram model's form: [[token, score], ...], the position being the id. */
  private void readScoredVocabulary(JsonParser parser) throws IOException {
    for (int id = 0; parser.nextToken() == JsonToken.START_ARRAY; id++) {
      parser.nextToken();
      add(parser.getText(), id);
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        parser.skipChildren();
      }
    }
  }

  private void add(String content, int id) throws IOException {
    if (content == null || id < 0) {
      throw new IOException("token " + content + " has the id " + id);
    }
    ids.set(id);
    byte[] bytes = TokenBytes.incomplete(content);
    if (bytes != null) {
      partial.put(id, bytes);
    }
    if (wantedNames.contains(content)) {
      wanted.put(content, id);
    }
  }
}
