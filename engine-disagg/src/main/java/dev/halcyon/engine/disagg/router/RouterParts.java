package dev.halcyon.engine.disagg.router;

/** What the requests of a router share. */
record RouterParts(
    RouterOptions options,
    NodeClient client,
    PrefillChoice prefill,
    NodeGroup decode,
    Admission admission,
    Pins pins,
    RequestIds ids,
    RouterMetrics metrics) {}
