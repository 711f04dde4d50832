package dev.halcyon.engine.disagg.transfer;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;

/** Skips tests, with the reason, where UCX is missing. */
public final class NeedsUcx implements ExecutionCondition {

  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    // Asked once for all tests: it takes a while.
    return context
        .getRoot()
        .getStore(Namespace.create(NeedsUcx.class))
        .computeIfAbsent("UCX", key -> evaluate(), ConditionEvaluationResult.class);
  }

  private static ConditionEvaluationResult evaluate() {
    return NetworkTransport.UCX
        .unavailable()
        .map(reason -> ConditionEvaluationResult.disabled("no UCX: " + reason))
        .orElseGet(() -> ConditionEvaluationResult.enabled("UCX is there"));
  }
}
