/**
 * Prefill and decode apart: parameters, wire format, KV transfer and the HTTP service. Nothing of
 * it exists yet; a request runs from prompt to last token in one engine.
 */
package dev.halcyon.engine.disagg;
