package dev.halcyon.engine.disagg.router;

import io.netty.buffer.ByteBuf;
import io.netty.handler.codec.http.HttpHeaders;

/** Takes an endpoint's answer as it comes. All on the exchange's event loop. */
interface Answer {

  /** Comes first: the exchange that the answer is of. */
  void begins(Exchange exchange);

  void head(int status, HttpHeaders headers);

  /**
   * @param piece released by who takes it
   */
  void content(ByteBuf piece);

  /** Whether more is wanted now; if not, {@link Exchange#readMore} says when it is. */
  boolean wantsMore();

  void end();

  /** Instead of the end: there is no answer, or not the whole of it. */
  void failed(ExchangeFailure failure);
}
