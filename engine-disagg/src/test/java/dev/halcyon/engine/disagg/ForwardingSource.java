package dev.halcyon.engine.disagg;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.function.Consumer;

/** Passes everything on to another source, to be overridden in part. */
class ForwardingSource implements KvSource {

  private final KvSource source;

  ForwardingSource(KvSource source) {
    this.source = source;
  }

  @Override
  public KvManifest manifest() {
    return source.manifest();
  }

  @Override
  public KvProgress progress() {
    return source.progress();
  }

  @Override
  public String order() {
    return source.order();
  }

  @Override
  public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
    source.read(piece, to, done);
  }

  @Override
  public KvView view() {
    return source.view();
  }

  @Override
  public void end(KvTransferException error) {
    source.end(error);
  }
}
