package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.Activation;

/**
 * A family's nonlinearity.
 *
 * @param key the key of its name
 * @param otherwise the name if left out
 */
record ActivationRule(String key, String otherwise) {

  static final ActivationRule SILU = new ActivationRule("hidden_act", "silu");
  static final ActivationRule GELU_TANH =
      new ActivationRule("hidden_activation", "gelu_pytorch_tanh");

  Activation read(ConfigReader config) {
    String name = config.text(key).orElse(otherwise);
    return switch (name) {
      case "silu", "swish" -> Activation.SILU;
      case "gelu" -> Activation.GELU;
      case "gelu_pytorch_tanh", "gelu_new" -> Activation.GELU_TANH;
      default ->
          throw config.bad(key, "is " + name, "one of silu, gelu, gelu_new, gelu_pytorch_tanh");
    };
  }
}
