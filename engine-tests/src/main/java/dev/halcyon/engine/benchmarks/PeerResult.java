package dev.halcyon.engine.benchmarks;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.Map;

/**
 * What scripts/peers/run says of one peer, a line of JSON each.
 *
 * @param peer its name
 * @param version its version
 * @param setting what was measured: types of weights, activations and KV cache
 * @param decode tokens a second by batch size; a batch is missing where the peer's API can't do it
 * @param prefill prompt tokens a second, or null
 * @param error why nothing was measured, or null
 */
@JsonIgnoreProperties(ignoreUnknown = true)
record PeerResult(
    @JsonProperty("peer") String peer,
    @JsonProperty("version") String version,
    @JsonProperty("setting") String setting,
    @JsonProperty("decode") Map<Integer, Double> decode,
    @JsonProperty("prefill") Double prefill,
    @JsonProperty("error") String error) {

  PeerResult {
    decode = decode == null ? Map.of() : Map.copyOf(decode);
  }
}
