package dev.halcyon.engine.tokenizer;

import com.hubspot.jinjava.interpret.JinjavaInterpreter;
import java.time.Clock;

/** What one rendering of a template has used up so far, and where it is. */
final class TemplateState {

  /** Under this key in jinjava's context; no template can write it. */
  static final String KEY = "render state";

  /** Each operation takes one unit, and more by the size of its values. */
  private static final long BUDGET = 8_000_000;

  /** In units of the budget, what a macro's call and a round of a loop cost by themselves. */
  static final long MACRO_CALL = 40;

  static final long LOOP_ROUND = 20;

  private static final int DEEPEST_CALL = 50;

  /** How a loop's body ended. */
  enum Interrupt {
    NONE,
    BREAK,
    CONTINUE
  }

  final Clock clock;
  Interrupt interrupt = Interrupt.NONE;
  private long used;
  private int depth;

  TemplateState(Clock clock) {
    this.clock = clock;
  }

  /** That of the rendering under way on this thread. */
  static TemplateState current() {
    return (TemplateState) JinjavaInterpreter.getCurrent().getContext().get(KEY);
  }

  void charge(long units) {
    used += 1 + units;
    if (used > BUDGET) {
      throw new TemplateFailure("it takes too much time or memory");
    }
  }

  void enterCall() {
    if (++depth > DEEPEST_CALL) {
      throw new TemplateFailure("macros call one another more than " + DEEPEST_CALL + " deep");
    }
  }

  void leaveCall() {
    depth--;
  }
}
