package dev.halcyon.engine.disagg;

import dev.halcyon.engine.disagg.transfer.NeedsUcx;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(NeedsUcx.class)
class UcxWorkersSplitTest extends SplitContract {

  @Override
  protected Ends ends() {
    return Ends.ucx(2);
  }
}
