package dev.halcyon.engine.disagg.transfer;

import org.junit.jupiter.api.extension.ExtendWith;

/** What holds over UCX, with workers. */
@ExtendWith(NeedsUcx.class)
class UcxWorkersTransportTest extends UcxTransportTest {

  @Override
  int workers() {
    return 2;
  }
}
