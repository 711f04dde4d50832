package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.RawHttp.readAll;
import static dev.halcyon.engine.disagg.RawHttp.write;
import static dev.halcyon.engine.disagg.TestJson.json;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.net.Socket;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Whatever comes in, the answer is an error in OpenAI's form, and the engine goes on. */
class HttpBadRequestTest {

  private static final String COMPLETIONS = "/v1/completions";
  private static final int MAX_BODY = 20_000;
  private static TestServer server;

  @BeforeAll
  static void start() {
    server =
        new TestServer(
            TestServer.defaultModel().maxBatchSize(8).build(),
            TestServer.options().maxBodyBytes(MAX_BODY).maxPrompts(4).build());
  }

  @AfterAll
  static void stop() {
    server.close();
    server.engine.close();
  }

  private static JsonNode refused(HttpResponse<String> response, int status) {
    assertThat(response.statusCode()).as(response.body()).isEqualTo(status);
    assertThat(response.headers().firstValue("content-type")).contains("application/json");
    JsonNode error = json(response.body()).get("error");
    assertThat(error.get("message").textValue()).isNotBlank();
    assertThat(error.get("type").textValue()).isNotBlank();
    assertThat(error.has("param")).isTrue();
    assertThat(error.has("code")).isTrue();
    return error;
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        " ",
        "null",
        "3",
        "\"x\"",
        "[]",
        "{",
        "{}}",
        "{\"prompt\": \"a\"} x",
        "{\"prompt\": \"a\", \"prompt\": \"b\"}",
        "{prompt: \"a\"}",
        "{\"prompt\": 'a'}",
        "{\"prompt\": \"a\", \"temperature\": NaN}",
        "{\"prompt\": \"\\x\"}"
      })
  void whatIsNoJsonObjectIsRefused(String body) {
    refused(server.post(COMPLETIONS, body), 400);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      quoteCharacter = '~',
      value = {
        "prompt; {}",
        "prompt; {\"prompt\": null}",
        "prompt; {\"prompt\": 3}",
        "prompt; {\"prompt\": true}",
        "prompt; {\"prompt\": {}}",
        "prompt; {\"prompt\": []}",
        "prompt; {\"prompt\": [[]]}",
        "prompt; {\"prompt\": [1, \"a\"]}",
        "prompt; {\"prompt\": [\"a\", 1]}",
        "prompt; {\"prompt\": [\"a\", [1]]}",
        "prompt; {\"prompt\": [[1], \"a\"]}",
        "prompt; {\"prompt\": [null]}",
        "prompt; {\"prompt\": [-1]}",
        "prompt; {\"prompt\": [2048]}",
        "prompt; {\"prompt\": [1.5]}",
        "prompt; {\"prompt\": [99999999999]}",
        "prompt; {\"prompt\": [\"a\", \"a\", \"a\", \"a\", \"a\"]}",
        "max_tokens; {\"prompt\": \"a\", \"max_tokens\": 0}",
        "max_tokens; {\"prompt\": \"a\", \"max_tokens\": -1}",
        "max_tokens; {\"prompt\": \"a\", \"max_tokens\": \"5\"}",
        "max_tokens; {\"prompt\": \"a\", \"max_tokens\": 1e3}",
        "max_tokens; {\"prompt\": \"a\", \"max_tokens\": 9999999999}",
        "temperature; {\"prompt\": \"a\", \"temperature\": -0.1}",
        "temperature; {\"prompt\": \"a\", \"temperature\": 1e999}",
        "temperature; {\"prompt\": \"a\", \"temperature\": 1e99}",
        "temperature; {\"prompt\": \"a\", \"temperature\": \"0\"}",
        "top_p; {\"prompt\": \"a\", \"top_p\": 0}",
        "top_p; {\"prompt\": \"a\", \"top_p\": 1.01}",
        "top_k; {\"prompt\": \"a\", \"top_k\": -2}",
        "top_k; {\"prompt\": \"a\", \"top_k\": 99999}",
        "min_p; {\"prompt\": \"a\", \"min_p\": 2}",
        "repetition_penalty; {\"prompt\": \"a\", \"repetition_penalty\": 0}",
        "presence_penalty; {\"prompt\": \"a\", \"presence_penalty\": []}",
        "frequency_penalty; {\"prompt\": \"a\", \"frequency_penalty\": 1e300}",
        "n; {\"prompt\": \"a\", \"n\": 0}",
        "n; {\"prompt\": \"a\", \"n\": 9}",
        "best_of; {\"prompt\": \"a\", \"best_of\": 3}",
        "seed; {\"prompt\": \"a\", \"seed\": 1.5}",
        "seed; {\"prompt\": \"a\", \"seed\": 99999999999999999999}",
        "stop; {\"prompt\": \"a\", \"stop\": 3}",
        "stop; {\"prompt\": \"a\", \"stop\": \"\"}",
        "stop; {\"prompt\": \"a\", \"stop\": [\"x\", 3]}",
        "stop_token_ids; {\"prompt\": \"a\", \"stop_token_ids\": [5000]}",
        "logit_bias; {\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}",
        "logit_bias; {\"prompt\": \"a\", \"logit_bias\": {\"5000\": 1}}",
        "logit_bias; {\"prompt\": \"a\", \"logit_bias\": {\"5\": \"1\"}}",
        "logit_bias; {\"prompt\": \"a\", \"logit_bias\": [1]}",
        "logprobs; {\"prompt\": \"a\", \"logprobs\": true}",
        "logprobs; {\"prompt\": \"a\", \"logprobs\": 21}",
        "min_tokens; {\"prompt\": \"a\", \"min_tokens\": 17}",
        "echo; {\"prompt\": \"a\", \"echo\": 1}",
        "stream; {\"prompt\": \"a\", \"stream\": \"yes\"}",
        "stream_options; {\"prompt\": \"a\", \"stream_options\": {\"include_usage\": true}}",
        "stream_options.x; {\"prompt\": \"a\", \"stream\": true, \"stream_options\": {\"x\": 1}}",
        "suffix; {\"prompt\": \"a\", \"suffix\": \"b\"}",
        "tools; {\"prompt\": \"a\", \"tools\": []}",
        "unknown; {\"prompt\": \"a\", \"unknown\": 1}",
        "store; {\"prompt\": \"a\", \"store\": true}",
        "model; {\"prompt\": \"a\", \"model\": 3}"
      })
  void aWrongFieldIsNamed(String param, String body) {
    JsonNode error = refused(server.post(COMPLETIONS, body), 400);
    assertThat(error.get("param").textValue()).isEqualTo(param);
    assertThat(error.get("type").textValue()).isEqualTo("invalid_request_error");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      quoteCharacter = '~',
      value = {
        "messages; {}",
        "messages; {\"messages\": []}",
        "messages; {\"messages\": \"hi\"}",
        "messages[0]; {\"messages\": [3]}",
        "messages[0].role; {\"messages\": [{\"content\": \"a\"}]}",
        "messages[0].role; {\"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}",
        "messages[1].content; {\"messages\": [{\"role\": \"user\", \"content\": \"a\"},"
            + " {\"role\": \"user\"}]}",
        "messages[0].content[0].type; {\"messages\": [{\"role\": \"user\", \"content\":"
            + " [{\"type\": \"image_url\", \"image_url\": {\"url\": \"x\"}}]}]}",
        "messages[0].name; {\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": \"b\"}]}",
        "top_logprobs; {\"messages\": [], \"top_logprobs\": 2}",
        "max_tokens; {\"messages\": [], \"max_tokens\": 2, \"max_completion_tokens\": 3}",
        "tools; {\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [{}]}",
        "response_format; {\"messages\": [{\"role\": \"user\", \"content\": \"a\"}],"
            + " \"response_format\": {\"type\": \"json_object\"}}",
        "reasoning_effort; {\"messages\": [{\"role\": \"user\", \"content\": \"a\"}],"
            + " \"reasoning_effort\": \"low\"}"
      })
  void aWrongFieldOfAChatIsNamed(String param, String body) {
    JsonNode error = refused(server.post("/v1/chat/completions", body), 400);
    assertThat(error.get("param").textValue()).isEqualTo(param);
  }

  @Test
  void whatChangesNothingIsLetIn() {
    server.answer(
        COMPLETIONS,
        "{\"prompt\": \"a\", \"max_tokens\": 1, \"user\": \"me\", \"store\": false, \"n\": null,"
            + " \"best_of\": 1, \"suffix\": null, \"service_tier\": \"auto\", \"top_k\": -1,"
            + " \"stop\": [], \"logit_bias\": {}, \"unknown\": null}");
  }

  @Test
  void headsAreChecked() {
    refused(server.get("/nothing"), 404);
    refused(server.get("/v1/models/default/x"), 404);
    HttpResponse<String> method = server.get(COMPLETIONS);
    refused(method, 405);
    assertThat(method.headers().firstValue("allow")).contains("POST");
    refused(server.post("/health", "{}"), 405);
    HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.ofString("{\"prompt\": \"a\"}");
    refused(server.send(server.request(COMPLETIONS).POST(body).build()), 415);
    refused(
        server.send(
            server.request(COMPLETIONS).header("content-type", "text/plain").POST(body).build()),
        415);
    refused(
        server.send(
            server
                .request(COMPLETIONS)
                .header("content-type", "application/json")
                .header("content-encoding", "gzip")
                .POST(body)
                .build()),
        415);
  }

  @Test
  void aBodyOverTheLimitIsRefusedWhetherOrNotItsLengthIsSaid() throws Exception {
    byte[] large =
        ("{\"prompt\": \"" + "a".repeat(MAX_BODY) + "\"}").getBytes(StandardCharsets.UTF_8);
    refused(server.post(COMPLETIONS, large), 413);
    HttpRequest chunked =
        server
            .request(COMPLETIONS)
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(large)))
            .build();
    refused(server.send(chunked), 413);
    try (Socket socket = server.socket()) {
      write(
          socket,
          "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
              + "Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n");
      assertThat(readAll(socket)).startsWith("HTTP/1.1 413 ");
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      value = {
        "400; nonsense\\r\\n\\r\\n",
        "400; GET /health HTTP/1.1\\r\\nno colon here\\r\\n\\r\\n",
        "414; GET /LONG HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
        "431; GET /health HTTP/1.1\\r\\nX: LONGLONGLONGLONGLONG\\r\\n\\r\\n",
        "400; POST /v1/completions HTTP/1.1\\r\\nContent-Type: application/json\\r\\n"
            + "Transfer-Encoding: chunked\\r\\n\\r\\nzz\\r\\n",
        "400; POST /v1/completions HTTP/1.1\\r\\nContent-Type: application/json\\r\\n"
            + "Content-Length: x\\r\\n\\r\\n"
      })
  void whatIsNoHttpIsAnsweredAndTheConnectionClosed(int status, String text) throws Exception {
    String request = text.replace("\\r\\n", "\r\n").replace("LONG", "x".repeat(10_000));
    try (Socket socket = server.socket()) {
      write(socket, request);
      String response = readAll(socket);
      assertThat(response).startsWith("HTTP/1.1 " + status + " ").contains("\"error\"");
    }
  }

  /** Bodies that were right before a few bytes of them changed. */
  @Test
  void mutatedBodiesGetAnAnswerOrAnErrorOfTheirs() {
    String[] seeds = {
      "{\"prompt\": \"Once\", \"max_tokens\": 2, \"temperature\": 0.5, \"logprobs\": 2, \"n\": 2}",
      "{\"prompt\": [[1, 2], [3]], \"max_tokens\": 1, \"stop\": [\"a\", \"b\"], \"seed\": 3}",
      "{\"prompt\": [\"a\", \"b\"], \"max_tokens\": 1, \"logit_bias\": {\"5\": -3.5}, \"echo\": true}",
      "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}],"
          + " \"max_tokens\": 1, \"logprobs\": true, \"top_logprobs\": 3}"
    };
    Random random = new Random(5);
    Map<Integer, Integer> statuses = new TreeMap<>();
    for (int i = 0; i < 1500; i++) {
      int which = random.nextInt(seeds.length);
      byte[] body = mutated(seeds[which].getBytes(StandardCharsets.UTF_8), random);
      String path = which == 3 ? "/v1/chat/completions" : COMPLETIONS;
      HttpResponse<String> response = server.post(path, body);
      statuses.merge(response.statusCode(), 1, Integer::sum);
      if (response.statusCode() != 200) {
        assertThat(response.statusCode())
            .as(new String(body, StandardCharsets.ISO_8859_1))
            .isBetween(400, 499);
        refused(response, response.statusCode());
      }
    }
    assertThat(statuses).containsKeys(200, 400);
    server.awaitIdle();
  }

  private static byte[] mutated(byte[] seed, Random random) {
    byte[] body = seed.clone();
    for (int changes = 1 + random.nextInt(3); changes > 0; changes--) {
      int at = random.nextInt(body.length);
      switch (random.nextInt(5)) {
        case 0 -> body[at] = (byte) random.nextInt(256);
        case 1 -> body[at] = (byte) "{}[]\",:0123456789-.etrufalsn".charAt(random.nextInt(28));
        case 2 -> body = Arrays.copyOf(body, Math.max(1, at));
        case 3 -> {
          byte[] longer = Arrays.copyOf(body, body.length + 8);
          System.arraycopy(body, at, longer, at, Math.min(8, body.length - at));
          System.arraycopy(
              body,
              at,
              longer,
              Math.min(at + 8, longer.length),
              Math.min(body.length - at, longer.length - Math.min(at + 8, longer.length)));
          body = longer;
        }
        default -> {
          int other = random.nextInt(body.length);
          byte kept = body[at];
          body[at] = body[other];
          body[other] = kept;
        }
      }
    }
    return body;
  }
}
