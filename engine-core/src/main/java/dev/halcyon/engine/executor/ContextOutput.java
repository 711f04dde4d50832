package dev.halcyon.engine.executor;

import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.logits.ContextLogits;
import dev.halcyon.engine.logits.FullLogits;
import java.lang.ref.Cleaner;
import java.util.List;

/**
 * What a request gets of its prompt: full logits, logprobs, or both. Its rows come step by step;
 * when all are there, and the token after them, it is handed out.
 */
final class ContextOutput {

  private static final String CANCELLED =
      "These logits were freed when their request was cancelled or failed";

  private final ContextLogits rows;
  private final Cleaner cleaner;
  private FullLogits full;
  private LogitsView view;
  private List<TokenLogprobs> logprobs;
  private boolean finished;
  private boolean handedOut;

  /**
   * @param cleaner frees full logits that were handed out and dropped without being closed
   */
  ContextOutput(ContextLogits rows, Cleaner cleaner) {
    this.rows = rows;
    this.cleaner = cleaner;
  }

  /**
   * What another engine computed, complete; whatever is not there was not asked for.
   *
   * @param view handed on with the result, and closed with it
   */
  static ContextOutput received(LogitsView view, List<TokenLogprobs> logprobs) {
    ContextOutput context = new ContextOutput(null, null);
    context.view = view;
    context.logprobs = logprobs;
    context.finished = true;
    return context;
  }

  /** What the projections of its rows are added to; null if another engine did that. */
  ContextLogits rows() {
    return rows;
  }

  boolean complete() {
    return rows == null || rows.complete();
  }

  /** The first token is known: the last of the rows, which are all there, is scored with it. */
  void finish(int firstToken) {
    finished = true;
    if (rows.logprobs() != null) {
      rows.logprobs().scoreFirstToken(firstToken);
      logprobs = new PromptLogprobsList(rows.logprobs());
    }
    full = rows.takeFull();
    if (full != null) {
      view = new FullLogitsView(full);
      cleaner.register(view, full::close);
    }
  }

  /** Whether {@link #finish} was called. */
  boolean finished() {
    return finished;
  }

  /** Null if not asked for, not all there, or freed. */
  LogitsView view() {
    return view;
  }

  /** Null if not asked for or not all there. */
  List<TokenLogprobs> logprobs() {
    return logprobs;
  }

  /** Whether this is the delta to hand it out with: the first one. */
  boolean firstHandOut() {
    boolean first = !handedOut;
    handedOut = true;
    return first;
  }

  /** Frees full logits, handed out or not. */
  void release() {
    if (rows == null) {
      if (view != null) {
        view.close();
        view = null;
      }
      return;
    }
    rows.close();
    if (full != null) {
      full.close(CANCELLED);
      view = null;
    }
  }
}
