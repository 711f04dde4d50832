/**
 * The HTTP service: an engine behind OpenAI's API.
 *
 * <p>{@link dev.halcyon.engine.disagg.http.EngineRoutes} are the endpoints of one engine: each
 * parses its call into {@link dev.halcyon.engine.disagg.http.ApiRequest}, which {@link
 * dev.halcyon.engine.disagg.http.Generation} runs, and whose answer an {@link
 * dev.halcyon.engine.disagg.http.AnswerFormat} writes.
 *
 * <p>Of requests that are split, {@link dev.halcyon.engine.disagg.http.PrefillRole} and {@link
 * dev.halcyon.engine.disagg.http.DecodeRole} are the two sides; {@link
 * dev.halcyon.engine.disagg.http.HandoverCodec} has the form of what goes from one to the other.
 */
package dev.halcyon.engine.disagg.http;
