package dev.halcyon.engine.disagg;

class TcpSplitTest extends SplitContract {

  @Override
  protected Ends ends() {
    return Ends.tcp();
  }
}
