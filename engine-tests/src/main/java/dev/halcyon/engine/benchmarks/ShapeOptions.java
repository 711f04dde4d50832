package dev.halcyon.engine.benchmarks;

import picocli.CommandLine.Option;

/** The model's shape on the command line; every dimension defaults to TinyLlama-1.1B's. */
final class ShapeOptions {

  @Option(
      names = "--layers",
      paramLabel = "N",
      description = "decoder layers; fewer make a quick run (default: ${DEFAULT-VALUE})")
  private int layers = ModelShape.TINY_LLAMA_1B.layers();

  @Option(
      names = "--hidden",
      paramLabel = "N",
      description = "hidden size (default: ${DEFAULT-VALUE})")
  private int hidden = ModelShape.TINY_LLAMA_1B.hidden();

  @Option(
      names = "--inner",
      paramLabel = "N",
      description = "feed-forward size (default: ${DEFAULT-VALUE})")
  private int inner = ModelShape.TINY_LLAMA_1B.inner();

  @Option(
      names = "--heads",
      paramLabel = "N",
      description = "query heads (default: ${DEFAULT-VALUE})")
  private int heads = ModelShape.TINY_LLAMA_1B.heads();

  @Option(
      names = "--kv-heads",
      paramLabel = "N",
      description = "key/value heads (default: ${DEFAULT-VALUE})")
  private int kvHeads = ModelShape.TINY_LLAMA_1B.kvHeads();

  @Option(
      names = "--vocab",
      paramLabel = "N",
      description = "vocabulary size (default: ${DEFAULT-VALUE})")
  private int vocab = ModelShape.TINY_LLAMA_1B.vocab();

  ModelShape shape() {
    return new ModelShape(hidden, inner, layers, heads, kvHeads, vocab);
  }
}
