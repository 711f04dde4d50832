package dev.halcyon.engine.disagg;

class InProcessSplitTest extends SplitContract {

  @Override
  protected Ends ends() {
    return Ends.inProcess();
  }
}
