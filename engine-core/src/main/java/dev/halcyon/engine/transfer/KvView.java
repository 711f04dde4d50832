package dev.halcyon.engine.transfer;

/**
 * A computed prompt as it lies in its engine's cache, for another engine of the same JVM to copy it
 * from there. It can be copied until the source ends or is withdrawn; a copy that is under way then
 * is waited for. What it consists of is known to engines alone.
 */
public interface KvView {}
