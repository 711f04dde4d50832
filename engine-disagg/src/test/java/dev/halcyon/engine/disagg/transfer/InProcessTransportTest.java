package dev.halcyon.engine.disagg.transfer;

class InProcessTransportTest extends KvTransportContract {

  private InProcessTransport transport;

  @Override
  void openTransports() {
    transport = new InProcessTransport();
    context = transport;
    generation = transport;
  }

  @Override
  int openTransfers() {
    return transport.openTransfers();
  }
}
