package dev.halcyon.engine.disagg.router;

import io.netty.channel.EventLoop;

/**
 * One request to an endpoint and its answer. Lives on one event loop; {@link #fail} and {@link
 * #cancel} may be called from anywhere.
 */
final class Exchange {

  private final Node node;
  private final EventLoop loop;
  private final Answer answer;
  private final boolean work;
  private NodeConnection connection;
  private boolean answering;
  private boolean over;

  /**
   * @param work whether it counts as the endpoint's load
   */
  Exchange(Node node, EventLoop loop, Answer answer, boolean work) {
    this.node = node;
    this.loop = loop;
    this.answer = answer;
    this.work = work;
    if (work) {
      node.began();
    }
    node.awaits(this);
    answer.begins(this);
  }

  Node node() {
    return node;
  }

  /** Ends it without another word to the answer's taker. */
  void cancel() {
    onLoop(
        () -> {
          if (finish()) {
            closeConnection();
          }
        });
  }

  /** Ends it as if the endpoint had broken off. */
  void fail(String reason) {
    fail(ExchangeFailure.Kind.BROKEN, reason);
  }

  void fail(ExchangeFailure.Kind kind, String reason) {
    onLoop(() -> failed(new ExchangeFailure(kind, reason)));
  }

  // What follows runs on the event loop.

  boolean isOver() {
    return over;
  }

  void carriedBy(NodeConnection carrier) {
    connection = carrier;
  }

  /** Asks for more of the answer. */
  void readMore() {
    if (!over && connection != null) {
      connection.read();
    }
  }

  Answer answer() {
    return answer;
  }

  boolean isAnswering() {
    return answering;
  }

  /** Notes the first sign of an answer. */
  void answerBegan() {
    answering = true;
  }

  /** Notes that the answer is on its way to a client: it is not given up for a failed check. */
  void isPassedOn() {
    node.answered(this);
  }

  void ended() {
    if (finish()) {
      answer.end();
    }
  }

  void failed(ExchangeFailure failure) {
    if (finish()) {
      closeConnection();
      answer.failed(failure);
    }
  }

  private boolean finish() {
    if (over) {
      return false;
    }
    over = true;
    node.answered(this);
    if (work) {
      node.ended();
    }
    return true;
  }

  private void closeConnection() {
    if (connection != null) {
      connection.close();
    }
  }

  private void onLoop(Runnable action) {
    if (loop.inEventLoop()) {
      action.run();
    } else {
      loop.execute(action);
    }
  }
}
