package dev.halcyon.engine.disagg;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.function.Consumer;

/** Passes everything on to another sink, to be overridden in part. */
class ForwardingSink implements KvSink {

  private final KvSink sink;

  ForwardingSink(KvSink sink) {
    this.sink = sink;
  }

  @Override
  public KvManifest manifest() {
    return sink.manifest();
  }

  @Override
  public int firstToken() {
    return sink.firstToken();
  }

  @Override
  public String order() {
    return sink.order();
  }

  @Override
  public boolean follows() {
    return sink.follows();
  }

  @Override
  public void progress() {
    sink.progress();
  }

  @Override
  public void write(KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
    sink.write(piece, from, done);
  }

  @Override
  public boolean accepts(KvView view) {
    return sink.accepts(view);
  }

  @Override
  public void copy(KvView view, Consumer<KvTransferException> done) {
    sink.copy(view, done);
  }

  @Override
  public void end(KvTransferException error) {
    sink.end(error);
  }
}
