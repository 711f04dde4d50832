package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.RawHttp.write;
import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.disagg.RawHttp;
import dev.halcyon.engine.disagg.codec.LogitsCodec;
import dev.halcyon.engine.disagg.codec.LogitsTensor;
import java.io.IOException;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Logits in answers are the engine's. */
class HttpLogitsTest {

  private static final String PATH = "/v1/completions";
  private static final String PROMPT = "Once upon a time";
  private static final String BODY =
      "{\"prompt\": \"Once upon a time\", \"max_tokens\": 5, \"seed\": 3, \"temperature\": 1,"
          + " \"n\": 2, \"return_generation_logits\": true, \"return_context_logits\": true";

  private static Engine engine;
  private static TestServer server;

  @BeforeAll
  static void start() {
    engine = TestServer.defaultModel().prefixReuse(false).build();
    server = new TestServer(engine);
  }

  @AfterAll
  static void stop() {
    assertThat(engine.metrics().deviceMemory().results()).isZero();
    assertThat(engine.metrics().hostMemoryUsed()).isZero();
    server.close();
    engine.close();
  }

  private static GenerationResult expected() {
    return engine.generate(
        PROMPT,
        SamplingParams.builder()
            .maxTokens(5)
            .seed(3L)
            .temperature(1)
            .n(2)
            .returnGenerationLogits(true)
            .returnContextLogits(true)
            .build());
  }

  private static List<float[]> rows(LogitsView view) {
    List<float[]> rows = new ArrayList<>();
    for (int i = 0; i < view.rows(); i++) {
      float[] row = new float[view.vocabSize()];
      view.copyRow(i, row);
      rows.add(row);
    }
    return rows;
  }

  private static LogitsTensor tensor(JsonNode node) {
    return new LogitsCodec(engine.vocabSize(), 1 << 30).fromJson(node, "logits");
  }

  private static void requireSame(List<float[]> rows, List<float[]> expected) {
    assertThat(rows).hasSameSizeAs(expected);
    for (int i = 0; i < rows.size(); i++) {
      assertThat(rows.get(i)).as("row %d", i).isEqualTo(expected.get(i));
    }
  }

  @Test
  void everyValueIsTheEngines() {
    JsonNode choices = server.answer(PATH, BODY + "}").get("choices");
    try (GenerationResult expected = expected()) {
      for (GenerationOutput output : expected.outputs()) {
        JsonNode choice = choices.get(output.index());
        requireSame(
            rows(tensor(choice.get("generation_logits")).view()), rows(output.generationLogits()));
      }
      requireSame(
          rows(tensor(choices.get(0).get("context_logits")).view()),
          rows(expected.contextLogits()));
      assertThat(choices.get(1).has("context_logits")).as("said once").isFalse();
    }
  }

  @Test
  void aStreamsRowsAreTheWholeAnswers() {
    List<JsonNode> events = server.events(PATH, BODY + ", \"stream\": true}");
    List<List<float[]>> generated = List.of(new ArrayList<>(), new ArrayList<>());
    List<float[]> context = new ArrayList<>();
    for (JsonNode event : events) {
      JsonNode choice = event.get("choices").get(0);
      if (!choice.get("generation_logits").isNull()) {
        generated
            .get(choice.get("index").intValue())
            .addAll(rows(tensor(choice.get("generation_logits")).view()));
      }
      if (choice.has("context_logits")) {
        context.addAll(rows(tensor(choice.get("context_logits")).view()));
      }
    }
    try (GenerationResult expected = expected()) {
      for (GenerationOutput output : expected.outputs()) {
        requireSame(generated.get(output.index()), rows(output.generationLogits()));
      }
      requireSame(context, rows(expected.contextLogits()));
    }
  }

  /** The significands have 11 and 8 bits: a value is off by half a step at most. */
  @ParameterizedTest
  @CsvSource({"float16, 0x1.0p-11", "bfloat16, 0x1.0p-8"})
  void elementsMayBeSmaller(String type, String step) {
    JsonNode choice =
        server.answer(PATH, BODY + ", \"logits_dtype\": \"" + type + "\"}").at("/choices/0");
    LogitsTensor tensor = tensor(choice.get("generation_logits"));
    assertThat(tensor.type().wireName()).isEqualTo(type);
    List<float[]> rows = rows(tensor.view());
    try (GenerationResult expected = expected()) {
      List<float[]> exact = rows(expected.outputs().get(0).generationLogits());
      assertThat(rows).hasSameSizeAs(exact);
      for (int i = 0; i < rows.size(); i++) {
        for (int j = 0; j < rows.get(i).length; j++) {
          float value = exact.get(i)[j];
          double most = Math.max(Math.abs(value) * Double.parseDouble(step), 0x1.0p-25);
          assertThat(Math.abs((double) rows.get(i)[j] - value)).isLessThanOrEqualTo(most);
        }
      }
    }
  }

  @Test
  void anAnswerWithoutTokensHasNoRows() {
    JsonNode scored =
        server.answer(
            PATH,
            "{\"prompt\": \"Once\", \"max_tokens\": 0, \"echo\": true,"
                + " \"return_generation_logits\": true}");
    assertThat(scored.at("/choices/0/generation_logits").isNull()).isTrue();
    JsonNode stopped =
        server.answer(
            PATH,
            "{\"prompt\": \"Once upon a time\", \"temperature\": 0, \"stop\": \",\","
                + " \"return_generation_logits\": true}");
    assertThat(stopped.at("/choices/0/text").textValue()).isEmpty();
    assertThat(stopped.at("/choices/0/generation_logits").isNull()).isTrue();
  }

  @Test
  void answersShareRoomUntilTheyAreSent() throws IOException {
    // Room for 10 rows; the prompt has 5 tokens.
    long bytes = 10L * engine.vocabSize() * Float.BYTES;
    HttpOptions options = TestServer.options().maxInFlightLogitsBytes(bytes).build();
    String five =
        "{\"prompt\": \"Once upon a time\", \"return_context_logits\": true, \"temperature\": 0,"
            + " \"ignore_eos\": true, \"max_tokens\": ";
    String slow = five + "1000, \"n\": 7, \"stream\": true}";
    try (TestServer small = new TestServer(engine, options)) {
      for (int i = 0; i < 3; i++) {
        small.answer(PATH, five + "1}");
        small.events(PATH, five + "1, \"stream\": true}");
      }
      try (Socket one = small.socket();
          Socket two = small.socket()) {
        for (Socket each : List.of(one, two)) {
          write(each, RawHttp.post(PATH, slow));
          assertThat(each.getInputStream().read()).as("its answer has begun").isEqualTo('H');
        }
        HttpResponse<String> third = small.post(PATH, five + "1}");
        assertThat(third.statusCode()).isEqualTo(503);
        assertThat(third.headers().firstValue("retry-after")).contains("1");
        assertThat(json(third.body()).at("/error/code").textValue()).isEqualTo("out_of_memory");
        small.answer(PATH, "{\"prompt\": \"Once\", \"max_tokens\": 2}"); // needs no room
      }
      // Both clients left.
      await("there is room", () -> small.post(PATH, five + "1}").statusCode() == 200);
      HttpResponse<String> never =
          small.post(PATH, five + "6, \"return_generation_logits\": true}");
      assertThat(never.statusCode()).isEqualTo(400);
      assertThat(json(never.body()).at("/error/param").textValue())
          .isEqualTo("return_generation_logits");
      small.awaitIdle();
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      value = {
        "return_context_logits; \"max_tokens\": 1, \"return_context_logits\": true",
        "return_generation_logits; \"max_tokens\": 40, \"return_generation_logits\": true",
        "return_generation_logits; \"max_tokens\": 2, \"return_generation_logits\": 1",
        "logits_dtype; \"max_tokens\": 2, \"logits_dtype\": \"float64\""
      })
  void tooManyAreRefused(String param, String fields) {
    // Room for 4 rows; the prompt has 5 tokens.
    int bytes = 4 * engine.vocabSize() * Float.BYTES;
    HttpOptions options = TestServer.options().maxLogitsBytes(bytes).build();
    try (TestServer small = new TestServer(engine, options)) {
      HttpResponse<String> response =
          small.post(PATH, "{\"prompt\": \"Once upon a time\", " + fields + "}");
      assertThat(response.statusCode()).isEqualTo(400);
      assertThat(json(response.body()).at("/error/param").textValue()).isEqualTo(param);
      small.answer(
          PATH,
          "{\"prompt\": \"Once upon a time\", \"max_tokens\": 4, \"return_generation_logits\": true}");
    }
  }
}
