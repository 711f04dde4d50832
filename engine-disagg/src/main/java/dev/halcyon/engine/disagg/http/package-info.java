/**
 * The HTTP service: an engine behind OpenAI's API.
 *
 * <p>{@link dev.halcyon.engine.disagg.http.EngineRoutes} are the endpoints of one engine: each
 * parses its call into {@link dev.halcyon.engine.disagg.http.ApiRequest}, which {@link
 * dev.halcyon.engine.disagg.http.Generation} runs, and whose answer an {@link
 * dev.halcyon.engine.disagg.http.AnswerFormat} writes.
 */
package dev.halcyon.engine.disagg.http;
