package dev.halcyon.engine.disagg.router;

import java.util.concurrent.Executor;

/**
 * What the requests of a router share.
 *
 * @param workers for what would hold up an event loop
 */
record RouterParts(
    RouterOptions options,
    NodeClient client,
    PrefillChoice prefill,
    NodeGroup decode,
    Admission admission,
    Pins pins,
    RequestIds ids,
    RouterMetrics metrics,
    Executor workers) {}
