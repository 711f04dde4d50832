/**
 * The CUDA backend. Nothing here is public API but {@link
 * dev.halcyon.engine.cuda.CudaBackendProvider}, which ServiceLoader finds.
 *
 * <p>An operation goes this way: {@link dev.halcyon.engine.cuda.CudaBackend} chooses the device for
 * the calling thread, checks arguments and turns buffers into addresses; a class of related
 * operations, such as {@code NormOps}, packs the arguments and starts kernels on the context's
 * compute stream. To add one:
 *
 * <ol>
 *   <li>Write {@code kernels/NAME.cu} beside this package's resources, one idea a file, including
 *       {@code halcyon.cuh} or a header on top of it that {@code KernelSource} names. {@code Act}
 *       is the type of activations; the file is compiled for the one that a backend is opened with.
 *       Weights come as {@code Act} or as float: a kernel that reads some exists twice, the second
 *       one with the suffix {@code _f32}. Kernels are {@code extern "C"}.
 *   <li>Name the file in {@code KernelSource}; the compile test and the cache find it there.
 *   <li>Write the class of operations: kernels as fields, looked up in its constructor; every
 *       launch through {@code Launch}. Memory for a single operation comes from {@code
 *       CudaMemory.allocateUninitialized} and is closed right after the launch: it is reused in the
 *       order of the stream.
 *   <li>Call it in {@code CudaBackend}, and test it with the tag {@code gpu}.
 * </ol>
 *
 * <p>Weights of all kinds, norm weights and biases too, are resident in the type they are stored in
 * if that is the type of activations, and as float32 otherwise, which loses nothing.
 */
package dev.halcyon.engine.cuda;
