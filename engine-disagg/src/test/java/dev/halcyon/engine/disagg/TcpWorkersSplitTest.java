package dev.halcyon.engine.disagg;

class TcpWorkersSplitTest extends SplitContract {

  @Override
  protected Ends ends() {
    return Ends.tcp(2);
  }
}
