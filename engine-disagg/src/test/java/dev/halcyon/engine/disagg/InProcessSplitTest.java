package dev.halcyon.engine.disagg;

class InProcessSplitTest extends SplitContract {

  @Override
  Ends ends() {
    return Ends.inProcess();
  }
}
