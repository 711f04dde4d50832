package dev.halcyon.engine.tokenizer;

import ai.djl.huggingface.tokenizers.jni.TokenizersLibrary;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.weights.ModelFiles;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * A checkpoint's tokenizer.json, run by Hugging Face's native tokenizers library. It neither
 * truncates nor pads. Opening one uses no network.
 *
 * <p>What is put around a text is what transformers' AutoTokenizer puts there: by tokenizer.json's
 * post-processor, except for the classes of Llama's and Gemma's kind, which build theirs from
 * add_bos_token (true unless given) and add_eos_token (false unless given); where tokenizer.json
 * has no post-processor, the two settings count as well. Decoding doesn't apply
 * clean_up_tokenization_spaces, which would change what the model wrote.
 */
public final class HuggingFaceTokenizer implements Tokenizer {

  public static final String FILE = "tokenizer.json";

  /** A text that any vocabulary has. */
  private static final String ANCHOR = "a";

  /** Classes of transformers that replace tokenizer.json's post-processor. */
  private static final Set<String> OWN_POST_PROCESSOR =
      Set.of(
          "LlamaTokenizer",
          "LlamaTokenizerFast",
          "CodeLlamaTokenizer",
          "CodeLlamaTokenizerFast",
          "GemmaTokenizer",
          "GemmaTokenizerFast");

  private final TokenizersLibrary library;
  private final Vocabulary vocabulary;
  private final OptionalInt bosId;
  private final OptionalInt eosId;

  /** Put around a text by this class; empty arrays where the native post-processor does it. */
  private final int[] before;

  private final int[] after;
  private final boolean nativeAddsSpecialTokens;

  /** Shared by callers of the native tokenizer, exclusive for freeing it. */
  private final ReadWriteLock lock = new ReentrantReadWriteLock();

  private long handle;

  private HuggingFaceTokenizer(ModelFiles files, byte[] json, TokenizerConfig config) {
    this.vocabulary = readVocabulary(files, json, config);
    this.bosId = config.bosToken().map(vocabulary::idOf).orElse(OptionalInt.empty());
    this.eosId = config.eosToken().map(vocabulary::idOf).orElse(OptionalInt.empty());
    boolean ownClass = OWN_POST_PROCESSOR.contains(config.tokenizerClass());
    this.nativeAddsSpecialTokens = !ownClass && vocabulary.hasPostProcessor();
    this.before = around(files, "bos_token", config.addBosToken(), ownClass, bosId);
    this.after = around(files, "eos_token", config.addEosToken(), false, eosId);
    this.library = NativeTokenizers.library();
    String text = new String(json, StandardCharsets.UTF_8);
    this.handle = NativeTokenizers.create(library, text, files.description());
  }

  /**
   * Opens a checkpoint's tokenizer.
   *
   * @param config what {@link TokenizerConfig#read} gave for the same files
   * @throws ModelLoadException if tokenizer.json is missing or damaged
   */
  public static HuggingFaceTokenizer open(ModelFiles files, TokenizerConfig config) {
    byte[] json;
    try {
      json =
          files
              .read(FILE)
              .orElseThrow(
                  () ->
                      new ModelLoadException(
                          files.description()
                              + ": tokenizer.json is missing. A checkpoint that has only"
                              + " tokenizer.model or vocab.json must be converted with transformers"
                              + " (AutoTokenizer.from_pretrained(...).save_pretrained(...))."));
    } catch (IOException e) {
      throw damaged(files, e);
    }
    return new HuggingFaceTokenizer(files, json, config);
  }

  @Override
  public int[] encode(String text, boolean addSpecialTokens) {
    Objects.requireNonNull(text, "text");
    long[] ids = encodeNatively(wellFormed(text), addSpecialTokens && nativeAddsSpecialTokens);
    boolean addHere = addSpecialTokens && !nativeAddsSpecialTokens;
    int[] first = addHere ? before : new int[0];
    int[] last = addHere ? after : new int[0];
    int[] all = new int[first.length + ids.length + last.length];
    System.arraycopy(first, 0, all, 0, first.length);
    for (int i = 0; i < ids.length; i++) {
      all[first.length + i] = Math.toIntExact(ids[i]);
    }
    System.arraycopy(last, 0, all, first.length + ids.length, last.length);
    return all;
  }

  private long[] encodeNatively(String text, boolean addSpecialTokens) {
    lock.readLock().lock();
    try {
      long encoding = library.encode(requireOpen(), text, addSpecialTokens);
      try {
        return library.getTokenIds(encoding);
      } finally {
        library.deleteEncoding(encoding);
      }
    } catch (IllegalStateException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new EngineException("The tokenizer can't encode this text: " + e.getMessage(), e);
    } finally {
      lock.readLock().unlock();
    }
  }

  @Override
  public String decode(int[] ids, boolean skipSpecialTokens) {
    long[] wide = new long[ids.length];
    for (int i = 0; i < ids.length; i++) {
      if (ids[i] < 0) {
        throw new IllegalArgumentException("ids[" + i + "] is negative: " + ids[i]);
      }
      wide[i] = ids[i];
    }
    lock.readLock().lock();
    try {
      return library.decode(requireOpen(), wide, skipSpecialTokens);
    } catch (IllegalStateException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new EngineException("The tokenizer can't decode these ids: " + e.getMessage(), e);
    } finally {
      lock.readLock().unlock();
    }
  }

  @Override
  public byte[] tokenBytes(int id) {
    if (isSkipped(id, false)) {
      return new byte[0];
    }
    // Decoders treat the first token differently (leading spaces): another one goes before it.
    int[] anchor = encode(ANCHOR, false);
    int[] ids = Arrays.copyOf(anchor, anchor.length + 1);
    ids[anchor.length] = id;
    String before = decode(anchor, false);
    String both = decode(ids, false);
    String text = both.startsWith(before) ? both.substring(before.length()) : both;
    byte[] partial = text.indexOf('\uFFFD') < 0 ? null : vocabulary.partialBytes(id);
    return partial == null ? text.getBytes(StandardCharsets.UTF_8) : partial.clone();
  }

  @Override
  public int vocabSize() {
    return vocabulary.size();
  }

  @Override
  public OptionalInt bosId() {
    return bosId;
  }

  @Override
  public OptionalInt eosId() {
    return eosId;
  }

  @Override
  public boolean isSkipped(int id, boolean skipSpecialTokens) {
    if (id < 0) {
      throw new IllegalArgumentException("id is negative: " + id);
    }
    return !vocabulary.contains(id) || (skipSpecialTokens && vocabulary.isSpecial(id));
  }

  @Override
  public void close() {
    lock.writeLock().lock();
    try {
      if (handle != 0) {
        library.deleteTokenizer(handle);
        handle = 0;
      }
    } finally {
      lock.writeLock().unlock();
    }
  }

  private long requireOpen() {
    if (handle == 0) {
      throw new IllegalStateException("The tokenizer is closed");
    }
    return handle;
  }

  private static Vocabulary readVocabulary(ModelFiles files, byte[] json, TokenizerConfig config) {
    List<String> names = new ArrayList<>();
    config.bosToken().ifPresent(names::add);
    config.eosToken().ifPresent(names::add);
    try {
      return Vocabulary.read(json, names);
    } catch (IOException e) {
      throw damaged(files, e);
    }
  }

  private static int[] around(
      ModelFiles files, String token, Optional<Boolean> flag, boolean byDefault, OptionalInt id) {
    if (flag.isPresent() && flag.get() && id.isEmpty()) {
      throw new ModelLoadException(
          files.description()
              + ": tokenizer_config.json has add_"
              + token
              + " = true, but names no "
              + token
              + " that tokenizer.json has.");
    }
    return flag.orElse(byDefault) && id.isPresent() ? new int[] {id.getAsInt()} : new int[0];
  }

  /** The text with U+FFFD for each surrogate without its partner, which UTF-8 can't carry. */
  private static String wellFormed(String text) {
    StringBuilder repaired = null;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (!Character.isSurrogate(c)) {
        continue;
      }
      boolean paired =
          Character.isHighSurrogate(c)
              && i + 1 < text.length()
              && Character.isLowSurrogate(text.charAt(i + 1));
      if (paired) {
        i++;
      } else {
        repaired = repaired == null ? new StringBuilder(text) : repaired;
        repaired.setCharAt(i, '\uFFFD');
      }
    }
    return repaired == null ? text : repaired.toString();
  }

  private static ModelLoadException damaged(ModelFiles files, IOException e) {
    return new ModelLoadException(
        files.description()
            + ": "
            + FILE
            + " can't be read: "
            + e.getMessage()
            + ". Download the file again.",
        e);
  }
}
