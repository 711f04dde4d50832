package dev.halcyon.engine.executor;

import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvTransport;

/**
 * What an executor needs to hand prompts over and to take them.
 *
 * @param transport the way between engines; the caller's, not closed here
 * @param storage where keys and values lie
 * @param layout what they are
 * @param timeoutNanos how long a transfer may make no progress, on either side
 */
public record TransferParts(
    KvTransport transport, KvStorage storage, KvLayout layout, long timeoutNanos) {}
