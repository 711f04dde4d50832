package dev.halcyon.engine.disagg.router;

import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

/** The endpoints of a role, and the choice among them. Safe for use by several threads. */
final class NodeGroup {

  private final List<Node> nodes;
  private final ChoicePolicy policy;
  private final AtomicInteger turn = new AtomicInteger();

  NodeGroup(List<Node> nodes, ChoicePolicy policy) {
    this.nodes = List.copyOf(nodes);
    this.policy = policy;
  }

  List<Node> nodes() {
    return nodes;
  }

  long up() {
    return nodes.stream().filter(Node::isUp).count();
  }

  /** The fewest requests that run on any endpoint that is up. */
  int leastRunning() {
    return nodes.stream().filter(Node::isUp).mapToInt(Node::running).min().orElse(0);
  }

  /**
   * Chooses one that is up.
   *
   * @param avoid those that come last
   * @return null if none is up
   */
  Node choose(Set<Node> avoid) {
    List<Node> up = nodes.stream().filter(Node::isUp).toList();
    List<Node> fresh = up.stream().filter(node -> !avoid.contains(node)).toList();
    List<Node> from = fresh.isEmpty() ? up : fresh;
    if (from.isEmpty()) {
      return null;
    }
    int first = Math.floorMod(turn.getAndIncrement(), from.size());
    return policy == ChoicePolicy.ROUND_ROBIN ? from.get(first) : leastLoaded(from, first);
  }

  private static Node leastLoaded(List<Node> from, int first) {
    Node best = from.get(first);
    int least = best.running();
    for (int i = 1; i < from.size(); i++) {
      Node other = from.get((first + i) % from.size());
      int running = other.running();
      if (running < least) {
        best = other;
        least = running;
      }
    }
    return best;
  }
}
