package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.TestClient;
import dev.halcyon.engine.disagg.http.HttpOptions;
import dev.halcyon.engine.disagg.http.HttpService;
import dev.halcyon.engine.disagg.http.ServerProcess;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A router, a prefill and a decode server in three processes: what one server answers. */
@Timeout(180)
class RouterProcessesTest {

  private final TestClient client = new TestClient();

  @Test
  void completions() throws Exception {
    try (ServerProcess prefill = ServerProcess.prefill(NetworkTransport.TCP, null);
        ServerProcess decode =
            ServerProcess.decode(NetworkTransport.TCP, null, prefill.url().toString());
        Engine engine =
            ServerProcess.engine(
                    Engine.builder().defaultModel().backend(BackendChoice.CPU).threads(1))
                .build();
        HttpService whole =
            HttpService.start(engine, HttpOptions.builder().port(0).modelName("test").build());
        DisaggService contextFirst = router(prefill, decode, ScheduleStyle.CONTEXT_FIRST);
        DisaggService generationFirst = router(prefill, decode, ScheduleStyle.GENERATION_FIRST)) {
      Map<ScheduleStyle, Answers.Server> routers = new EnumMap<>(ScheduleStyle.class);
      routers.put(ScheduleStyle.CONTEXT_FIRST, at(contextFirst.url()));
      routers.put(ScheduleStyle.GENERATION_FIRST, at(generationFirst.url()));
      String greedy = body("\"temperature\": 0");
      String seeded = body("\"temperature\": 1.1, \"seed\": 9, \"n\": 3");
      Answers.requireSameInTurn(
          at(whole.url()),
          routers,
          RouterRig.COMPLETIONS,
          List.of(greedy, Answers.streamed(seeded)),
          "");
      prefill.assertClean();
      decode.assertClean();
    }
  }

  private static String body(String drawn) {
    return "{\"prompt\": \"Once upon a time there was a little girl who had a red ball, and\","
        + " \"max_tokens\": 6, \"logprobs\": 3, \"prompt_logprobs\": 1,"
        + " \"return_context_logits\": true, \"return_generation_logits\": true, "
        + drawn
        + "}";
  }

  private static DisaggService router(
      ServerProcess prefill, ServerProcess decode, ScheduleStyle style) {
    return DisaggService.start(
        RouterOptions.builder()
            .server(RouterRig.server().build())
            .scheduleStyle(style)
            .prefill(List.of(prefill.url()))
            .decode(List.of(decode.url()))
            .endpointKey(ServerProcess.KEY)
            .build());
  }

  private Answers.Server at(String url) {
    return (path, body) ->
        TestClient.good(client.send(TestClient.posting(url + path, body).build()));
  }
}
