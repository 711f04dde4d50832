package dev.halcyon.engine.disagg.router;

/**
 * A prompt that may be kept by a prefill endpoint until it is fetched.
 *
 * @param node where
 * @param id of the request
 */
record Pin(Node node, String id) {}
