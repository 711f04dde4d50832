package dev.halcyon.engine.disagg;

import static dev.halcyon.engine.disagg.TestJson.json;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.ScheduleStyle;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** What servers answer over HTTP, compared byte for byte but for ids and dates. */
public final class Answers {

  private Answers() {}

  /** One or several servers that do requests. */
  @FunctionalInterface
  public interface Server {

    /** The body of a good answer. */
    String ask(String path, String body);
  }

  /** Requires that requests are answered as by one server, whole and streamed. */
  public static void requireSame(
      Server whole, Map<ScheduleStyle, Server> split, String path, String body) {
    for (String each : List.of(body, streamed(body))) {
      String expected = whole.ask(path, each);
      split.forEach((style, servers) -> requireSame(servers.ask(path, each), expected));
    }
  }

  /**
   * Requires that requests, one after the other, are answered as by one server, with as much of
   * their prompts from caches. Requests of different styles have different caches.
   *
   * @param salt whose caches no request before has filled
   * @return how much of each prompt was cached
   */
  public static List<Integer> requireSameInTurn(
      Server whole,
      Map<ScheduleStyle, Server> split,
      String path,
      List<String> bodies,
      String salt) {
    List<Integer> cached = new ArrayList<>();
    split.forEach(
        (style, servers) -> {
          cached.clear();
          for (String body : bodies) {
            String salted = with(body, "cache_salt", style + salt);
            String expected = whole.ask(path, salted);
            requireSame(servers.ask(path, salted), expected);
            cached.add(cachedTokens(expected));
          }
        });
    return cached;
  }

  /** Requires that two answers to a request, both whole or both streamed, are the same. */
  public static void requireSame(String answer, String expected) {
    assertThat(comparable(answer)).isEqualTo(comparable(expected));
  }

  private static Object comparable(String answer) {
    return isStream(answer) ? byChoice(answer) : plain(json(answer));
  }

  private static boolean isStream(String answer) {
    return !answer.startsWith("{");
  }

  /** The body with another value of a field. */
  public static String with(String body, String field, Object value) {
    ObjectNode json = (ObjectNode) json(body);
    json.set(field, TestJson.of(value));
    return json.toString();
  }

  /** The body of a request that is answered by events, the last of which has its usage. */
  public static String streamed(String body) {
    return with(with(body, "stream", true), "stream_options", Map.of("include_usage", true));
  }

  /** The events of a good stream, without the [DONE] that ended it. */
  public static List<JsonNode> events(String stream) {
    assertThat(stream).endsWith("data: [DONE]\n\n");
    List<JsonNode> events = new ArrayList<>();
    for (String event : stream.split("\n\n")) {
      if (event.startsWith("data: ") && !event.equals("data: [DONE]")) {
        events.add(json(event.substring("data: ".length())));
      }
    }
    return events;
  }

  /** The part of a prompt that a good answer says was cached. */
  public static int cachedTokens(String answer) {
    JsonNode usage =
        isStream(answer)
            ? events(answer).stream()
                .map(event -> event.path("usage"))
                .filter(JsonNode::isObject)
                .findFirst()
                .orElseThrow()
            : json(answer).get("usage");
    return usage.at("/prompt_tokens_details/cached_tokens").intValue();
  }

  /** Events of one choice have an order; those of others may come between. */
  private static Map<Integer, List<JsonNode>> byChoice(String stream) {
    return events(stream).stream()
        .map(Answers::plain)
        .collect(
            Collectors.groupingBy(
                event -> event.at("/choices/0/index").asInt(-1),
                TreeMap::new,
                Collectors.toList()));
  }

  private static JsonNode plain(JsonNode answer) {
    return ((ObjectNode) answer).without(List.of("id", "created"));
  }
}
