package dev.halcyon.engine.logits;

import java.util.ArrayList;
import java.util.List;

/**
 * The books of a memory that fails when told to: what is open, what was asked for, and whatever was
 * done to memory that it wasn't there for.
 */
final class Account {

  private final List<String> violations = new ArrayList<>();
  private final List<Long> requests = new ArrayList<>();
  private long capacity = Long.MAX_VALUE;
  private long used;
  private long peak;
  private int open;
  private int failAt = -1;
  private int breakAt = -1;
  private int closedAgain;
  private boolean refusing;

  /** Whether an allocation succeeds; it is booked then. */
  synchronized boolean admit(long bytes) {
    int call = requests.size();
    requests.add(bytes);
    if (call == breakAt) {
      throw new OutOfMemoryError("a test");
    }
    if (refusing || call == failAt || bytes > capacity - used) {
      return false;
    }
    used += bytes;
    peak = Math.max(peak, used);
    open++;
    return true;
  }

  synchronized void release(long bytes) {
    used -= bytes;
    open--;
  }

  /** Lets the n-th allocation from now on fail, from 0. */
  synchronized void failCall(int n) {
    failAt = requests.size() + n;
  }

  /** Lets the n-th allocation from now on end with an error that nobody has promised. */
  synchronized void breakCall(int n) {
    breakAt = requests.size() + n;
  }

  /** Lets every allocation fail. */
  synchronized void refuse() {
    refusing = true;
  }

  /** Leaves room for so many bytes beyond those in use. */
  synchronized void leaveRoom(long bytes) {
    capacity = used + bytes;
  }

  /** Lets allocations succeed from now on. */
  synchronized void recover() {
    refusing = false;
    failAt = -1;
    capacity = Long.MAX_VALUE;
  }

  synchronized void violation(String what) {
    violations.add(what);
  }

  synchronized void closedAgain() {
    closedAgain++;
  }

  /** Harmless, but a sign of two owners. */
  synchronized int timesClosedAgain() {
    return closedAgain;
  }

  /** Uses of closed memory and the like. */
  synchronized List<String> violations() {
    return List.copyOf(violations);
  }

  /** The sizes asked for so far, the refused ones too. */
  synchronized List<Long> requests() {
    return List.copyOf(requests);
  }

  synchronized long used() {
    return used;
  }

  /** The most bytes in use at once. */
  synchronized long peak() {
    return peak;
  }

  synchronized int open() {
    return open;
  }

  synchronized long capacity() {
    return capacity;
  }
}
