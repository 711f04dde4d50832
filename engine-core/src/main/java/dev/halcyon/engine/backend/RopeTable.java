package dev.halcyon.engine.backend;

/**
 * Rotation angles for each position, as cosines and sines, resident on a backend. Pair i of a
 * head's elements, as the table's {@link RopeLayout} forms them, turns by angle i; elements from
 * rotaryDim on are left alone.
 */
public interface RopeTable extends AutoCloseable {

  int positions();

  int rotaryDim();

  @Override
  void close();
}
