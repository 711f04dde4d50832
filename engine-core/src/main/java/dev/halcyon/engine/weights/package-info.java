/** The files of a checkpoint and the tensors in them, checked before anything trusts them. */
package dev.halcyon.engine.weights;
