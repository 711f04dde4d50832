package dev.halcyon.engine.cuda;

import org.bytedeco.javacpp.Pointer;

/** An address as the bindings take it; it owns nothing. */
final class DevicePointer extends Pointer {

  /** Null, for a function to set. */
  DevicePointer() {
    super((Pointer) null);
  }

  DevicePointer(long address) {
    super((Pointer) null);
    this.address = address;
  }

  /** Makes this one point elsewhere. */
  DevicePointer at(long to) {
    this.address = to;
    return this;
  }
}
