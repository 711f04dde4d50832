package dev.halcyon.engine.disagg.router;

import static dev.halcyon.engine.disagg.TestJson.json;
import static dev.halcyon.engine.disagg.Waiting.await;
import static dev.halcyon.engine.disagg.router.RouterRig.BODY;
import static dev.halcyon.engine.disagg.router.RouterRig.COMPLETIONS;
import static org.assertj.core.api.Assertions.assertThat;

import java.net.Socket;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Which of several endpoints gets a request. */
class RouterChoiceTest {

  private static final String LONG = "One beginning that many prompts have in common. ".repeat(20);

  private static final ExchangeFailure FAILURE =
      new ExchangeFailure(ExchangeFailure.Kind.BROKEN, "test");

  private static Node node(int i) {
    return new Node(URI.create("http://10.0.0." + i + ":80"), Role.PREFILL, new Health(1, 1));
  }

  private static String prompt(String text) {
    return "{\"prompt\": \"" + text + "\"}";
  }

  private static List<Integer> counts(List<FakeEndpoint> of, String path) {
    return of.stream().map(each -> each.requests(path).size()).toList();
  }

  @Test
  void roundRobinTakesEachInItsTurn() {
    try (RouterRig rig = new RouterRig(3, 2, o -> o.choice(ChoicePolicy.ROUND_ROBIN))) {
      for (int i = 0; i < 12; i++) {
        rig.post(COMPLETIONS, BODY);
      }
      assertThat(counts(rig.prefill, "/prefill")).containsExactly(4, 4, 4);
      assertThat(counts(rig.decode, COMPLETIONS)).containsExactly(6, 6);
    }
  }

  @Test
  void leastLoadedLeavesOutTheBusy() throws Exception {
    try (RouterRig rig = new RouterRig(2, 2, o -> o.choice(ChoicePolicy.LEAST_LOADED))) {
      rig.decode.forEach(each -> each.on(COMPLETIONS, (request, out) -> out.hang()));
      List<Socket> clients = new ArrayList<>();
      for (int i = 1; i <= 6; i++) {
        int sent = i;
        clients.add(rig.open(COMPLETIONS, BODY));
        await("it is there", () -> sum(counts(rig.decode, COMPLETIONS)) == sent);
      }
      assertThat(counts(rig.decode, COMPLETIONS)).containsExactly(3, 3);
      // Those of one of them end; what comes next is for that one.
      FakeEndpoint idle = rig.decode.get(1);
      idle.down();
      idle.on(COMPLETIONS, FakeEndpoint::complete);
      rig.decode.get(0).on(COMPLETIONS, (request, out) -> out.hang());
      clients.forEach(RouterChoiceTest::close);
      rig.awaitIdle();
    }
  }

  private static void close(Socket socket) {
    try {
      socket.close();
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  private static int sum(List<Integer> counts) {
    return counts.stream().mapToInt(Integer::intValue).sum();
  }

  @Test
  void theLeastLoadedIsTheOneWithTheFewestRunning() {
    List<Node> nodes = List.of(node(1), node(2), node(3));
    NodeGroup group = new NodeGroup(nodes, ChoicePolicy.LEAST_LOADED);
    nodes.get(0).began();
    nodes.get(2).began();
    nodes.get(2).began();
    for (int i = 0; i < 5; i++) {
      assertThat(group.choose(Set.of())).isSameAs(nodes.get(1));
    }
    assertThat(group.choose(Set.of(nodes.get(1)))).isSameAs(nodes.get(0));
    assertThat(group.choose(Set.copyOf(nodes))).as("better than none").isSameAs(nodes.get(1));
    nodes.get(1).callFailed(FAILURE);
    assertThat(group.choose(Set.of())).isSameAs(nodes.get(0));
    nodes.forEach(node -> node.callFailed(FAILURE));
    assertThat(group.choose(Set.of())).isNull();
  }

  /** Equal ones take turns. */
  @Test
  void equallyLoadedOnesTakeTurns() {
    List<Node> nodes = List.of(node(1), node(2), node(3));
    NodeGroup group = new NodeGroup(nodes, ChoicePolicy.LEAST_LOADED);
    assertThat(IntStream.range(0, 6).mapToObj(i -> group.choose(Set.of())))
        .containsExactly(
            nodes.get(0), nodes.get(1), nodes.get(2), nodes.get(0), nodes.get(1), nodes.get(2));
  }

  @Test
  void promptsOfOneBeginningGoToOnePrefillEndpoint() {
    try (RouterRig rig = new RouterRig(3, 1, o -> o.choice(ChoicePolicy.ROUND_ROBIN))) {
      for (int i = 0; i < 9; i++) {
        rig.post(COMPLETIONS, prompt(LONG + "Then number " + i));
      }
      assertThat(counts(rig.prefill, "/prefill")).containsExactlyInAnyOrder(9, 0, 0);
      for (int i = 0; i < 9; i++) {
        rig.post(COMPLETIONS, prompt(i + LONG));
      }
      assertThat(counts(rig.prefill, "/prefill")).as("others").containsExactlyInAnyOrder(12, 3, 3);
    }
  }

  @Test
  void affinityEndsWhereTheEndpointIsDownOrHasMuchToDo() {
    List<Node> nodes = List.of(node(1), node(2));
    NodeGroup group = new NodeGroup(nodes, ChoicePolicy.LEAST_LOADED);
    PrefillChoice choice = new PrefillChoice(group, new PrefixAffinity(100), 2);
    long[] keys = {1, 2, 3};
    Node first = choice.choose(keys, Set.of());
    Node other = nodes.get(first == nodes.get(0) ? 1 : 0);
    first.began();
    first.began();
    assertThat(choice.choose(keys, Set.of())).as("2 more than the other").isSameAs(first);
    first.began();
    assertThat(choice.choose(new long[] {1, 2, 9}, Set.of())).as("3 more").isSameAs(other);
    assertThat(choice.choose(new long[] {1, 2, 8}, Set.of())).as("it has it too").isSameAs(other);
    first.ended();
    assertThat(choice.choose(keys, Set.of())).as("the longest decides").isSameAs(first);
    assertThat(choice.choose(keys, Set.of(first))).as("it has failed").isSameAs(other);
    first.ended();
    first.ended();
    other.callFailed(FAILURE);
    assertThat(choice.choose(keys, Set.of())).as("the other is down").isSameAs(first);
  }

  @Test
  void affinityKeepsNoMoreThanItMay() {
    PrefixAffinity affinity = new PrefixAffinity(3);
    Node node = node(1);
    affinity.remember(new long[] {1, 2}, node);
    affinity.remember(new long[] {3}, node);
    affinity.find(new long[] {1});
    affinity.remember(new long[] {4}, node);
    assertThat(affinity.size()).isEqualTo(3);
    assertThat(affinity.find(new long[] {2})).as("not asked for longest").isNull();
    assertThat(affinity.find(new long[] {1})).isSameAs(node);
    affinity.remember(new long[] {5, 6, 7, 8}, node);
    assertThat(affinity.size()).isEqualTo(3);
    PrefixAffinity none = new PrefixAffinity(0);
    none.remember(new long[] {1}, node);
    assertThat(none.find(new long[] {1})).isNull();
  }

  private static long[] keys(String body) {
    return PrefixKeys.of(json(body), 42);
  }

  private static int common(String one, String other) {
    long[] a = keys(one);
    long[] b = keys(other);
    int mismatch = Arrays.mismatch(a, b);
    return mismatch < 0 ? a.length : mismatch;
  }

  /** 64, 128, 256 and 512 characters, or 16, 32 ... ids. */
  @Test
  void promptsHaveKeysInCommonAsFarAsTheyAreTheSame() {
    assertThat(keys(prompt("a".repeat(63)))).isEmpty();
    assertThat(keys(prompt("a".repeat(64)))).hasSize(1);
    assertThat(keys(prompt("a".repeat(700)))).hasSize(4).doesNotHaveDuplicates();
    assertThat(common(prompt("a".repeat(700)), prompt("a".repeat(300) + "b".repeat(400))))
        .isEqualTo(3);
    assertThat(common(prompt("b" + "a".repeat(700)), prompt("a".repeat(700)))).isZero();
    String ids = "[" + "7,".repeat(40) + "8]";
    assertThat(keys("{\"prompt\": " + ids + "}")).hasSize(2);
    assertThat(common("{\"prompt\": " + ids + "}", "{\"prompt\": [" + ids + ", [1]]}"))
        .as("the first of several")
        .isEqualTo(2);
    assertThat(common(prompt(LONG), "{\"prompt\": [\"" + LONG + "\", \"x\"]}")).isEqualTo(4);
    assertThat(common(prompt(LONG), "{\"cache_salt\": \"s\", \"prompt\": \"" + LONG + "\"}"))
        .isZero();
    assertThat(PrefixKeys.of(json(prompt(LONG)), 43)).doesNotContain(keys(prompt(LONG)));
  }

  @Test
  void conversationsHaveKeysInCommonAsFarAsTheyAreTheSame() {
    String system = "{\"role\": \"system\", \"content\": \"" + LONG + "\"}";
    String one = "{\"messages\": [" + system + ", {\"role\": \"user\", \"content\": \"a\"}]}";
    String two =
        "{\"messages\": ["
            + system
            + ", {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"b\"}]}]}";
    assertThat(common(one, two)).isEqualTo(4);
    assertThat(common(one, one.replace("system", "user"))).isZero();
    assertThat(keys("{\"messages\": 3}")).isEmpty();
    assertThat(keys("{\"messages\": [3, {\"role\": 4, \"content\": {}}]}")).isEmpty();
    assertThat(keys("{\"prompt\": [[]]}")).isEmpty();
  }
}
