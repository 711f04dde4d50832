/**
 * What crosses the wire between a prefill and a decode engine, but for the KV cache: logits and
 * parameters, as JSON and in binary. Decoding trusts nothing; whatever is wrong with a payload is a
 * {@link dev.halcyon.engine.disagg.codec.WireFormatException} that names the field.
 */
package dev.halcyon.engine.disagg.codec;
