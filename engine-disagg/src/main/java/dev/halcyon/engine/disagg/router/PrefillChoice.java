package dev.halcyon.engine.disagg.router;

import java.util.Set;

/**
 * Chooses where a prompt is computed: where its beginning was, as long as that endpoint is up and
 * has not much more to do than others, or else by the policy.
 */
final class PrefillChoice {

  private final NodeGroup group;
  private final PrefixAffinity affinity;
  private final int slack;

  PrefillChoice(NodeGroup group, PrefixAffinity affinity, int slack) {
    this.group = group;
    this.affinity = affinity;
    this.slack = slack;
  }

  /**
   * @param keys of the prompt's beginnings
   * @param avoid endpoints that come last
   * @return null if none is up
   */
  Node choose(long[] keys, Set<Node> avoid) {
    Node known = affinity.find(keys);
    Node chosen = known != null && mayTake(known, avoid) ? known : group.choose(avoid);
    if (chosen != null) {
      affinity.remember(keys, chosen);
    }
    return chosen;
  }

  private boolean mayTake(Node node, Set<Node> avoid) {
    return node.isUp() && !avoid.contains(node) && node.running() <= group.leastRunning() + slack;
  }
}
