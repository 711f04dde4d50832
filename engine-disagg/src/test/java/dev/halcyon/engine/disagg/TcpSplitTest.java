package dev.halcyon.engine.disagg;

class TcpSplitTest extends SplitContract {

  @Override
  Ends ends() {
    return Ends.tcp();
  }
}
