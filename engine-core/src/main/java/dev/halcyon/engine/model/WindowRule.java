package dev.halcyon.engine.model;

/** How a family says which layers see a sliding window only. */
enum WindowRule {
  /** No layer does. */
  NONE,
  /** Every layer does, where sliding_window is not null; the key left out means 4096. */
  EVERY_LAYER,
  /**
   * If use_sliding_window, the layers from max_window_layers on do, unless layer_types names each
   * layer's kind. The keys left out mean a window of 4096 from layer 28 on.
   */
  UPPER_LAYERS,
  /**
   * All layers but each n-th do, by sliding_window_pattern or the family's own n, unless
   * layer_types names each layer's kind. The window left out means 4096.
   */
  ALL_BUT_EVERY_NTH
}
