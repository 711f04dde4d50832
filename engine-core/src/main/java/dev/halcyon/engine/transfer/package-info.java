/**
 * How the keys and values of a prompt get from one engine to another: what an engine offers and
 * takes ({@link dev.halcyon.engine.transfer.KvSource}, {@link dev.halcyon.engine.transfer.KvSink}),
 * and what a transport between them does ({@link dev.halcyon.engine.transfer.KvTransport}).
 */
package dev.halcyon.engine.transfer;
