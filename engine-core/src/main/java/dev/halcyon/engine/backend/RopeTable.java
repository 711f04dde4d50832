package dev.halcyon.engine.backend;

/**
 * Rotation angles for each position, as cosines and sines, resident on a backend. Pairs are element
 * i and i + rotaryDim / 2 of a head ("rotate half"); elements from rotaryDim on are left alone.
 */
public interface RopeTable extends AutoCloseable {

  int positions();

  int rotaryDim();

  @Override
  void close();
}
