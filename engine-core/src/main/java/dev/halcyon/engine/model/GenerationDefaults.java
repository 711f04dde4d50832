package dev.halcyon.engine.model;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.sampling.SamplingDefaults;
import dev.halcyon.engine.weights.ModelFiles;
import java.util.List;

/**
 * How a checkpoint wants to be run when the caller says nothing, by its generation_config.json.
 *
 * @param sampling the sampling settings; null for those that the file leaves out
 * @param bosId the id that begins a text; -1 for none
 * @param endIds the ids that end a text
 */
public record GenerationDefaults(SamplingDefaults sampling, int bosId, List<Integer> endIds) {

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
        .orElseGet(
            () -> new GenerationDefaults(SamplingDefaults.NONE, config.bosId(), config.endIds()));
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
    return new GenerationDefaults(
        sampling(reader),
        bosIds.isEmpty() ? config.bosId() : bosIds.get(0),
        endIds.isEmpty() ? config.endIds() : endIds);
  }

  private static SamplingDefaults sampling(ConfigReader reader) {
    Integer topK =
        reader.has("top_k") ? (Integer) reader.integer("top_k", 0, Integer.MAX_VALUE) : null;
    return new SamplingDefaults(
        reader.flag("do_sample", false),
        number(reader, "temperature", true, Float.MAX_VALUE),
        topK,
        number(reader, "top_p", false, 1),
        number(reader, "min_p", true, 1),
        number(reader, "repetition_penalty", false, Float.MAX_VALUE));
  }

  private static Float number(ConfigReader reader, String key, boolean zero, float max) {
    if (!reader.has(key)) {
      return null;
    }
    double value = zero ? reader.number(key, 0) : reader.positive(key);
    if (value > max) {
      throw reader.bad(key, "is " + value, "at most " + max);
    }
    return (float) value;
  }
}
