/**
 * The HTTP service: an engine behind OpenAI's API.
 *
 * <p>{@link dev.halcyon.engine.disagg.http.HttpService} listens and answers by a table of {@link
 * dev.halcyon.engine.disagg.http.Route}s. A {@link dev.halcyon.engine.disagg.http.Connection} reads
 * requests and keeps slow or vanished clients from costing anything; an {@link
 * dev.halcyon.engine.disagg.http.Endpoint} answers one {@link dev.halcyon.engine.disagg.http.Call}.
 * {@link dev.halcyon.engine.disagg.http.EngineRoutes} are the endpoints of one engine: each parses
 * its call into {@link dev.halcyon.engine.disagg.http.ApiRequest}, which {@link
 * dev.halcyon.engine.disagg.http.Generation} runs, and whose answer an {@link
 * dev.halcyon.engine.disagg.http.AnswerFormat} writes.
 */
package dev.halcyon.engine.disagg.http;
