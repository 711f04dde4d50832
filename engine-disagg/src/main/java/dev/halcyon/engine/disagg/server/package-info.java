/**
 * An HTTP server of few needs: what an engine's service and a router have in common.
 *
 * <p>{@link dev.halcyon.engine.disagg.server.HttpServer} listens and answers by a table of {@link
 * dev.halcyon.engine.disagg.server.Route}s. A {@link dev.halcyon.engine.disagg.server.Connection}
 * reads requests and keeps slow or vanished clients from costing anything; an {@link
 * dev.halcyon.engine.disagg.server.Endpoint} answers one {@link
 * dev.halcyon.engine.disagg.server.Call}.
 */
package dev.halcyon.engine.disagg.server;
