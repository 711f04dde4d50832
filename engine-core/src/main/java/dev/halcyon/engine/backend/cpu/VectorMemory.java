package dev.halcyon.engine.backend.cpu;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Loads vectors from native memory, on every JDK from 17 on, from one class file.
 *
 * <p>The vector module changed this one call: JDK 17 has {@code fromByteBuffer(species, buffer,
 * int, order)}, JDK 22 and later have only {@code fromMemorySegment(species, segment, long,
 * order)}, and MemorySegment is no final API in 17. Whichever exists is bound to one constant
 * method handle of type (Object, long) IntVector. HotSpot compiles an exact call of a constant
 * handle as it does a direct call, so this costs nothing in the loops; it is why the handle must
 * stay {@code static final} and be called with {@code invokeExact}.
 */
final class VectorMemory {

  static final VectorSpecies<Float> FLOATS = FloatVector.SPECIES_PREFERRED;
  static final VectorSpecies<Integer> INTS = VectorSpecies.of(int.class, FLOATS.vectorShape());

  /**
   * Loads a vector of little-endian ints: (view, byte offset) to IntVector; no alignment needed,
   * bounds checked. Called by {@code invokeExact} right in the loops, since a method around it
   * would count against what HotSpot inlines.
   */
  static final MethodHandle LOAD;

  private static final MethodHandle VIEW;

  static {
    MethodHandles.Lookup lookup = MethodHandles.lookup();
    MethodType load = MethodType.methodType(IntVector.class, Object.class, long.class);
    MethodType view = MethodType.methodType(Object.class, Buffer.class);
    try {
      if (Runtime.version().feature() >= 22) {
        Class<?> segment = Class.forName("java.lang.foreign.MemorySegment");
        LOAD = bound(lookup, "fromMemorySegment", segment, long.class).asType(load);
        VIEW =
            lookup
                .findStatic(segment, "ofBuffer", MethodType.methodType(segment, Buffer.class))
                .asType(view);
      } else {
        LOAD =
            MethodHandles.explicitCastArguments(
                bound(lookup, "fromByteBuffer", ByteBuffer.class, int.class), load);
        VIEW = MethodHandles.identity(Object.class).asType(view);
      }
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("The vector module of this JDK has no load from native memory", e);
    }
  }

  private VectorMemory() {}

  private static MethodHandle bound(
      MethodHandles.Lookup lookup, String name, Class<?> memory, Class<?> offset)
      throws ReflectiveOperationException {
    MethodHandle handle =
        lookup.findStatic(
            IntVector.class,
            name,
            MethodType.methodType(
                IntVector.class, VectorSpecies.class, memory, offset, ByteOrder.class));
    return MethodHandles.insertArguments(
        MethodHandles.insertArguments(handle, 0, INTS), 2, ByteOrder.LITTLE_ENDIAN);
  }

  /** What {@link #LOAD} reads from: the buffer from its position to its limit. */
  static Object view(ByteBuffer buffer) {
    try {
      return VIEW.invokeExact((Buffer) buffer);
    } catch (Throwable t) {
      throw unexpected(t);
    }
  }

  /** What a handle threw, as something to throw on: handles declare Throwable, these throw none. */
  static RuntimeException unexpected(Throwable t) {
    if (t instanceof RuntimeException e) {
      return e;
    }
    if (t instanceof Error e) {
      throw e;
    }
    return new IllegalStateException(t);
  }
}
