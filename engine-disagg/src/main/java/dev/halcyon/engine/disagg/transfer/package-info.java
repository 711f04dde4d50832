/**
 * Transports for keys and values between engines: {@link
 * dev.halcyon.engine.disagg.transfer.InProcessTransport} within one JVM, {@link
 * dev.halcyon.engine.disagg.transfer.TcpTransport} and {@link
 * dev.halcyon.engine.disagg.transfer.UcxTransport} between processes and machines. In each the
 * generation side asks for one piece after the other, a few at a time, which bounds the memory on
 * both sides and the work between two steps of an engine.
 */
package dev.halcyon.engine.disagg.transfer;
