package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.ScheduleStyle;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Times requests in one engine and in two through the public API. Whole requests run on the engine
 * that computes prompts, so that nothing but the split is different.
 */
final class SplitMeasurement {

  /** Transfers of one prompt, those included that warm up: the code needs some to be compiled. */
  private static final int TRANSFERS = 80;

  private final Engine prefill;
  private final Engine decode;
  private final TimedTransport transport;
  private final EngineMeasurement prompts;
  private int requests;

  /**
   * @param prefill an engine with prefix reuse, so that a prompt can be handed over often
   * @param decode an engine without, so that it needs all of it each time
   * @param transport what {@code decode} fetches through
   */
  SplitMeasurement(Engine prefill, Engine decode, TimedTransport transport) {
    this.prefill = prefill;
    this.decode = decode;
    this.transport = transport;
    this.prompts = new EngineMeasurement(prefill);
  }

  /**
   * Measures whole and split requests in turn, so that a machine that is slow for a while is so to
   * all. The best run of each counts, after one to warm up.
   *
   * @param batch requests at once where rates are measured
   */
  SplitFigures measure(int promptTokens, int generatedTokens, int batch, int runs) {
    double wholeFirst = Double.MAX_VALUE;
    double splitFirst = Double.MAX_VALUE;
    double overlappedFirst = Double.MAX_VALUE;
    double wholeRate = 0;
    double splitRate = 0;
    double overlappedRate = 0;
    for (int run = 0; run <= runs; run++) {
      double whole = first(promptTokens, this::whole);
      double split = first(promptTokens, this::split);
      double overlapped = first(promptTokens, this::overlapped);
      double wholeTokens = rate(promptTokens, generatedTokens, batch, this::whole);
      double splitTokens = rate(promptTokens, generatedTokens, batch, this::split);
      double overlappedTokens = rate(promptTokens, generatedTokens, batch, this::overlapped);
      if (run > 0) {
        wholeFirst = Math.min(wholeFirst, whole);
        splitFirst = Math.min(splitFirst, split);
        overlappedFirst = Math.min(overlappedFirst, overlapped);
        wholeRate = Math.max(wholeRate, wholeTokens);
        splitRate = Math.max(splitRate, splitTokens);
        overlappedRate = Math.max(overlappedRate, overlappedTokens);
      }
    }
    List<TimedTransport.Transfer> transfers = transfers(promptTokens);
    return new SplitFigures(
        wholeFirst,
        splitFirst,
        overlappedFirst,
        wholeRate,
        splitRate,
        overlappedRate,
        transfers.get(0).bytes(),
        transfers.get(0).seconds(),
        transfers.get(transfers.size() / 2).seconds());
  }

  /**
   * Transfers of one prompt between two engines that do nothing else, the fastest first: the first
   * engine finds it in its cache, all but a token, the second never has it. Those that warm up are
   * left out.
   */
  private List<TimedTransport.Transfer> transfers(int promptTokens) {
    GenerationRequest request = request(promptTokens, 2);
    List<TimedTransport.Transfer> transfers = new ArrayList<>();
    for (int i = 0; i < TRANSFERS; i++) {
      split(request).join().await(2);
      if (i >= TRANSFERS / 2) {
        transfers.add(transport.last());
      }
    }
    transfers.sort(Comparator.comparingDouble(TimedTransport.Transfer::seconds));
    return transfers;
  }

  /** Two tokens: with one alone nothing would be left for the second engine. */
  private double first(
      int promptTokens, Function<GenerationRequest, CompletableFuture<Arrivals>> way) {
    GenerationRequest request = request(promptTokens, 2);
    long start = System.nanoTime();
    return (way.apply(request).join().await(2)[0] - start) / 1e9;
  }

  private double rate(
      int promptTokens,
      int generatedTokens,
      int batch,
      Function<GenerationRequest, CompletableFuture<Arrivals>> way) {
    List<GenerationRequest> all = new ArrayList<>();
    for (int i = 0; i < batch; i++) {
      all.add(request(promptTokens, generatedTokens));
    }
    long start = System.nanoTime();
    List<CompletableFuture<Arrivals>> running = all.stream().map(way).toList();
    long end = start;
    for (CompletableFuture<Arrivals> one : running) {
      end = Math.max(end, one.join().await(generatedTokens)[generatedTokens - 1]);
    }
    return (double) batch * generatedTokens / ((end - start) / 1e9);
  }

  private GenerationRequest request(int promptTokens, int generatedTokens) {
    return GenerationRequest.of(
        prompts.prompt(promptTokens), EngineMeasurement.greedy(generatedTokens));
  }

  private CompletableFuture<Arrivals> whole(GenerationRequest request) {
    return CompletableFuture.completedFuture(arrivals(prefill.submit(request)));
  }

  private CompletableFuture<Arrivals> split(GenerationRequest request) {
    return prefill
        .submit(context(request, ScheduleStyle.CONTEXT_FIRST))
        .result()
        .thenApply(
            first -> {
              try (GenerationResult context = first) {
                return arrivals(
                    decode.submit(
                        request.toBuilder().disaggParams(context.disaggParams()).build()));
              }
            });
  }

  private CompletableFuture<Arrivals> overlapped(GenerationRequest request) {
    GenerationHandle first = prefill.submit(context(request, ScheduleStyle.GENERATION_FIRST));
    return first
        .offer()
        .thenApply(
            offer ->
                arrivals(
                    decode.submit(
                        request.toBuilder()
                            .disaggParams(offer)
                            .firstTokens(first.result().thenApply(GenerationResult::disaggParams))
                            .build())));
  }

  private GenerationRequest context(GenerationRequest request, ScheduleStyle style) {
    DisaggParams params = DisaggParams.contextOnly("benchmark-" + ++requests, style);
    return request.toBuilder().disaggParams(params).build();
  }

  private static Arrivals arrivals(GenerationHandle handle) {
    Arrivals arrivals = new Arrivals();
    handle.deltas().subscribe(arrivals);
    return arrivals;
  }
}
