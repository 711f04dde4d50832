package dev.halcyon.engine.model;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.weights.ModelFiles;
import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalInt;

/**
 * How a checkpoint wants to be sampled when the caller says nothing, by its generation_config.json.
 * What the file leaves out is empty.
 *
 * @param doSample whether to sample at all; otherwise the most likely token is taken
 * @param temperature at least 0
 * @param topK at least 0, where 0 means all
 * @param topP above 0, at most 1
 * @param minP 0 to 1
 * @param repetitionPenalty above 0
 * @param bosId the id that begins a text; -1 for none
 * @param endIds the ids that end a text
 */
public record GenerationDefaults(
    boolean doSample,
    OptionalDouble temperature,
    OptionalInt topK,
    OptionalDouble topP,
    OptionalDouble minP,
    OptionalDouble repetitionPenalty,
    int bosId,
    List<Integer> endIds) {

  /** The name of the file that the defaults are read from. */
  public static final String FILE = "generation_config.json";

  public GenerationDefaults {
    endIds = List.copyOf(endIds);
  }

  /**
   * Reads a checkpoint's generation_config.json, if it has one. Ids that it leaves out are those of
   * {@code config}.
   *
   * @throws ModelLoadException if a value is out of range; the message names the key
   */
  public static GenerationDefaults parse(ModelFiles files, ModelConfig config) {
    return FileText.find(files, FILE)
        .map(json -> parse(json, files.describe(FILE), config))
        .orElseGet(() -> parse(new byte[] {'{', '}'}, FILE, config));
  }

  /**
   * Reads the defaults from a file's content.
   *
   * @param what what to call the file in messages
   */
  public static GenerationDefaults parse(byte[] json, String what, ModelConfig config) {
    ConfigReader reader = ConfigReader.of(json, what);
    List<Integer> bosIds = reader.tokenIds("bos_token_id", config.vocabSize());
    List<Integer> endIds = reader.tokenIds("eos_token_id", config.vocabSize());
    OptionalDouble repetition = number(reader, "repetition_penalty", Double.MAX_VALUE);
    OptionalDouble topP = number(reader, "top_p", 1);
    requirePositive(reader, "repetition_penalty", repetition);
    requirePositive(reader, "top_p", topP);
    return new GenerationDefaults(
        reader.flag("do_sample", false),
        number(reader, "temperature", Double.MAX_VALUE),
        reader.has("top_k")
            ? OptionalInt.of(reader.integer("top_k", 0, Integer.MAX_VALUE))
            : OptionalInt.empty(),
        topP,
        number(reader, "min_p", 1),
        repetition,
        bosIds.isEmpty() ? config.bosId() : bosIds.get(0),
        endIds.isEmpty() ? config.endIds() : endIds);
  }

  private static OptionalDouble number(ConfigReader reader, String key, double max) {
    if (!reader.has(key)) {
      return OptionalDouble.empty();
    }
    double value = reader.number(key, 0);
    if (value > max) {
      throw reader.bad(key, "is " + value, "at most " + max);
    }
    return OptionalDouble.of(value);
  }

  private static void requirePositive(ConfigReader reader, String key, OptionalDouble value) {
    if (value.isPresent() && value.getAsDouble() == 0) {
      throw reader.bad(key, "is 0", "more than 0");
    }
  }
}
