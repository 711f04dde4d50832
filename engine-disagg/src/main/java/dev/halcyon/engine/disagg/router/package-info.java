/**
 * The router: one server for clients, in front of prefill and decode endpoints.
 *
 * <p>{@link dev.halcyon.engine.disagg.router.DisaggService} listens. A {@link
 * dev.halcyon.engine.disagg.router.RoutedRequest} is a client's request on its way; one try of it
 * is {@link dev.halcyon.engine.disagg.router.ContextFirstTry} or {@link
 * dev.halcyon.engine.disagg.router.GenerationFirstTry}, and a {@link
 * dev.halcyon.engine.disagg.router.Relay} passes the answer on. {@link
 * dev.halcyon.engine.disagg.router.NodeClient} calls endpoints ({@link
 * dev.halcyon.engine.disagg.router.Node}), which {@link dev.halcyon.engine.disagg.router.NodeGroup}
 * and {@link dev.halcyon.engine.disagg.router.PrefillChoice} choose and {@link
 * dev.halcyon.engine.disagg.router.HealthChecks} watch.
 */
package dev.halcyon.engine.disagg.router;
