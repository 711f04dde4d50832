package dev.halcyon.engine.disagg;

import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

@ParameterizedClass
@ValueSource(ints = {0, 2})
class TcpSplitTest extends SplitContract {

  @Parameter private int workers;

  @Override
  protected Ends ends() {
    return Ends.tcp(workers);
  }
}
