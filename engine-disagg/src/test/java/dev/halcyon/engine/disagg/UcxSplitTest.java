package dev.halcyon.engine.disagg;

import dev.halcyon.engine.disagg.transfer.NeedsUcx;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

@ExtendWith(NeedsUcx.class)
@ParameterizedClass
@ValueSource(ints = {0, 2})
class UcxSplitTest extends SplitContract {

  @Parameter private int workers;

  @Override
  protected Ends ends() {
    return Ends.ucx(workers);
  }
}
