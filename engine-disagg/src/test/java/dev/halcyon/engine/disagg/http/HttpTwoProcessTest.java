package dev.halcyon.engine.disagg.http;

import static dev.halcyon.engine.disagg.http.SplitServers.COMPLETIONS;
import static dev.halcyon.engine.disagg.http.SplitServers.SPLIT;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.disagg.Answers;
import dev.halcyon.engine.disagg.Ends;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A prefill server in another process, and a decode server here: what one server answers. */
@Timeout(180)
class HttpTwoProcessTest {

  private int requests;

  @ParameterizedTest
  @EnumSource
  void aPrefillServerInAnotherProcess(NetworkTransport kind, @TempDir Path directory)
      throws Exception {
    Optional<String> unavailable = kind.unavailable();
    assumeTrue(unavailable.isEmpty(), () -> "no " + kind + ": " + unavailable.orElseThrow());
    Path model = TinyCheckpoint.write(directory);
    try (ServerProcess prefill = ServerProcess.prefill(kind, model);
        SplitServers servers = SplitServers.of(model, Ends.listening(kind), ServerProcess::engine);
        TestServer decode = prefill.decodeServer(servers.decode.engine)) {
      Map<ScheduleStyle, Answers.Server> styles = styles(prefill, decode);
      for (String drawn :
          List.of(HttpSplitEqualityTest.DRAWN.get(0), HttpSplitEqualityTest.DRAWN.get(3))) {
        int[] prompt = new Random(5).ints(61, 1, TinyCheckpoint.VOCAB).toArray();
        String start = "{\"prompt\": " + Arrays.toString(prompt) + ", \"max_tokens\": 6, ";
        String fields = "\"ignore_eos\": true, " + drawn + ", ";
        String rows = start + fields + HttpSplitEqualityTest.ALL + "}";
        String noRows = start + fields + HttpSplitEqualityTest.GENERATED + "}";
        List<String> bodies =
            List.of(rows, Answers.streamed(rows), Answers.streamed(noRows), noRows);
        assertThat(
                Answers.requireSameInTurn(servers.whole::good, styles, COMPLETIONS, bodies, drawn))
            .containsExactly(0, 0, 48, 48);
      }
      servers.assertClean();
      prefill.assertClean();
    }
  }

  private Map<ScheduleStyle, Answers.Server> styles(ServerProcess prefill, TestServer decode) {
    Map<ScheduleStyle, Answers.Server> styles = new EnumMap<>(ScheduleStyle.class);
    styles.put(
        ScheduleStyle.CONTEXT_FIRST,
        (path, body) ->
            decode.good(path, Answers.with(body, SPLIT, prefill.prefilled(body, newId()))));
    styles.put(
        ScheduleStyle.GENERATION_FIRST,
        (path, body) ->
            decode.good(
                path,
                Answers.with(
                    body, SPLIT, SplitServers.generationFirst(newId(), prefill.url().toString()))));
    return styles;
  }

  private String newId() {
    return "r-" + requests++;
  }
}
