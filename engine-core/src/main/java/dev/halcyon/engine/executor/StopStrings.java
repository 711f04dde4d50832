package dev.halcyon.engine.executor;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;

/**
 * Finds several stop strings in one pass over a text, by the automaton of Aho and Corasick
 * ("Efficient string matching", 1975). A state is the longest end of the text so far that begins a
 * stop string: how long that is tells what must be held back. Immutable, shared by all samples of a
 * request.
 */
final class StopStrings {

  /** The state before any text. */
  static final int START = 0;

  private static final class Node {
    final int depth;
    char[] keys = new char[0];
    int[] children = new int[0];
    int fallback;

    /** The longest stop string that ends here, or null. */
    String match;

    Node(int depth) {
      this.depth = depth;
    }

    int child(char c) {
      for (int i = 0; i < keys.length; i++) {
        if (keys[i] == c) {
          return children[i];
        }
      }
      return -1;
    }
  }

  private final List<Node> nodes = new ArrayList<>();

  /**
   * @throws IllegalArgumentException if a stop string is empty or null
   */
  StopStrings(List<String> stops) {
    nodes.add(new Node(0));
    for (String stop : stops) {
      if (stop == null || stop.isEmpty()) {
        throw new IllegalArgumentException("stop has a string that is empty or null");
      }
      insert(stop);
    }
    link();
  }

  boolean isEmpty() {
    return nodes.size() == 1;
  }

  /** The state after one more character. */
  int next(int state, char c) {
    for (int at = state; ; at = nodes.get(at).fallback) {
      int child = nodes.get(at).child(c);
      if (child >= 0) {
        return child;
      }
      if (at == START) {
        return START;
      }
    }
  }

  /** The longest stop string that ends where the state was reached, or null. */
  String match(int state) {
    return nodes.get(state).match;
  }

  /**
   * How many of the last characters may become part of a stop string that isn't complete yet, so
   * must not be given out.
   */
  int heldBack(int state) {
    int at = state;
    while (nodes.get(at).keys.length == 0 && at != START) {
      at = nodes.get(at).fallback;
    }
    return nodes.get(at).depth;
  }

  private void insert(String stop) {
    int at = START;
    for (int i = 0; i < stop.length(); i++) {
      int child = nodes.get(at).child(stop.charAt(i));
      at = child >= 0 ? child : addChild(nodes.get(at), stop.charAt(i));
    }
    nodes.get(at).match = stop;
  }

  private int addChild(Node parent, char c) {
    int index = nodes.size();
    nodes.add(new Node(parent.depth + 1));
    int count = parent.keys.length;
    parent.keys = Arrays.copyOf(parent.keys, count + 1);
    parent.children = Arrays.copyOf(parent.children, count + 1);
    parent.keys[count] = c;
    parent.children[count] = index;
    return index;
  }

  /** Sets the fallbacks, nearest nodes first, and hands matches down along them. */
  private void link() {
    Queue<Integer> queue = new ArrayDeque<>();
    queue.add(START);
    while (!queue.isEmpty()) {
      int index = queue.remove();
      Node node = nodes.get(index);
      for (int i = 0; i < node.keys.length; i++) {
        Node child = nodes.get(node.children[i]);
        child.fallback = index == START ? START : next(node.fallback, node.keys[i]);
        if (child.match == null) {
          child.match = nodes.get(child.fallback).match;
        }
        queue.add(node.children[i]);
      }
    }
  }
}
