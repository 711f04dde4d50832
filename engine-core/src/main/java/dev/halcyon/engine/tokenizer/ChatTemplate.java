package dev.halcyon.engine.tokenizer;

import com.hubspot.jinjava.Jinjava;
import com.hubspot.jinjava.JinjavaConfig;
import com.hubspot.jinjava.LegacyOverrides;
import com.hubspot.jinjava.el.TruthyTypeConverter;
import com.hubspot.jinjava.interpret.AutoCloseableSupplier.AutoCloseableImpl;
import com.hubspot.jinjava.interpret.Context;
import com.hubspot.jinjava.interpret.JinjavaInterpreter;
import com.hubspot.jinjava.interpret.TemplateError;
import com.hubspot.jinjava.lib.expression.ExpressionStrategy;
import com.hubspot.jinjava.lib.tag.Tag;
import com.hubspot.jinjava.tree.ExpressionNode;
import com.hubspot.jinjava.tree.Node;
import com.hubspot.jinjava.tree.TagNode;
import com.hubspot.jinjava.tree.output.RenderedOutputNode;
import com.hubspot.jinjava.tree.parse.ExpressionToken;
import dev.halcyon.engine.ChatMessage;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.ModelLoadException;
import java.time.Clock;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import jinjava.de.odysseus.el.ExpressionFactoryImpl;
import jinjava.de.odysseus.el.tree.TreeBuilderException;
import jinjava.de.odysseus.el.tree.TreeStore;
import jinjava.de.odysseus.el.tree.impl.Cache;
import jinjava.javax.el.ExpressionFactory;

/**
 * A checkpoint's chat template, rendered as transformers' apply_chat_template does: Jinja with
 * trim_blocks and lstrip_blocks, loop controls, raise_exception, strftime_now and a plain tojson.
 *
 * <p>jinjava reads and walks the template; expressions, white space and the tags for, if, filter,
 * break and continue are this package's, by Python's rules. A template comes with a checkpoint and
 * isn't trusted: it reaches nothing of Java, no file and no other template, and what it may
 * compute, hold and put out is bounded.
 *
 * <p>Not supported: call blocks, recursive loops, include, import, extends and block, macros as
 * values, the filters and tests not named in {@link TemplateFilters} and {@link TemplateTests},
 * string formatting by % or format, and methods that change a list or mapping (which transformers
 * forbids too). A template that uses one of these fails when it is loaded, or at the latest when it
 * is rendered, with an error that names it.
 *
 * <p>Safe for use by several threads.
 */
public final class ChatTemplate {

  private static final int LONGEST_TEMPLATE = 1 << 20;

  /** jinjava's tags that a template may use besides {@link TemplateTags}. */
  private static final Set<String> JINJAVA_TAGS = Set.of("set", "macro", "raw", "elif", "else");

  /** jinjava with this package's expressions. */
  private static final class Renderer extends Jinjava {
    private final TreeStore expressions;
    private final ExpressionFactory factory;

    Renderer(JinjavaConfig config) {
      super(config);
      expressions = new TreeStore(new TemplateParser.Syntax(), new Cache(4096));
      factory = new ExpressionFactoryImpl(expressions, new TruthyTypeConverter());
    }

    @Override
    public ExpressionFactory getExpressionFactory() {
      return factory;
    }
  }

  /** Puts out an expression's value as Python would show it. */
  private static final class PythonOutput implements ExpressionStrategy {
    private static final long serialVersionUID = 1;

    @Override
    public RenderedOutputNode interpretOutput(
        ExpressionToken token, JinjavaInterpreter interpreter) {
      Object value = interpreter.resolveELExpression(token.getExpr(), token.getLineNumber());
      return new RenderedOutputNode(PythonValues.str(value));
    }
  }

  private final Renderer renderer;
  private final Node root;
  private final Map<String, Object> specialTokens = new HashMap<>();
  private final Clock clock;

  /**
   * Reads a template.
   *
   * @param template the template's text
   * @param config whose special tokens the template sees as bos_token and eos_token
   * @throws ModelLoadException if the template is malformed, or uses what isn't supported
   */
  public static ChatTemplate parse(String template, TokenizerConfig config) {
    return new ChatTemplate(
        template,
        config.bosToken().orElse(null),
        config.eosToken().orElse(null),
        Clock.systemDefaultZone());
  }

  ChatTemplate(String template, String bosToken, String eosToken, Clock clock) {
    this.clock = clock;
    if (bosToken != null) {
      specialTokens.put("bos_token", bosToken);
    }
    if (eosToken != null) {
      specialTokens.put("eos_token", eosToken);
    }
    this.renderer = newRenderer();
    if (template.length() > LONGEST_TEMPLATE) {
      throw malformed("it is longer than " + LONGEST_TEMPLATE + " characters", null);
    }
    try {
      this.root = read(TemplateText.normalize(template));
    } catch (StackOverflowError e) {
      throw malformed("it is nested too deeply", null);
    } catch (RuntimeException e) {
      throw malformed(messageOf(e), e);
    }
  }

  /**
   * The conversation as text, special tokens included by name, so it is to be encoded without
   * adding any.
   *
   * @param addGenerationPrompt whether the assistant's reply is opened at the end
   * @throws IllegalArgumentException if the template refuses the messages, with its message
   * @throws EngineException if the template fails
   */
  public String render(List<ChatMessage> messages, boolean addGenerationPrompt) {
    List<Map<String, Object>> maps = new ArrayList<>();
    for (ChatMessage message : messages) {
      Map<String, Object> map = new LinkedHashMap<>();
      map.put("role", message.role());
      map.put("content", message.content());
      maps.add(map);
    }
    return render(maps, addGenerationPrompt, Map.of());
  }

  /**
   * As {@link #render(List, boolean)}, for messages with other fields and further variables: texts,
   * numbers, booleans, lists, maps and null.
   */
  public String render(
      List<? extends Map<String, ?>> messages,
      boolean addGenerationPrompt,
      Map<String, ?> variables) {
    Map<String, Object> bindings = new HashMap<>(specialTokens);
    bindings.put("tools", PythonValues.None.NONE);
    bindings.put("documents", PythonValues.None.NONE);
    variables.forEach((name, value) -> bindings.put(name, PythonValues.of(value)));
    bindings.put("messages", PythonValues.of(messages));
    bindings.put("add_generation_prompt", addGenerationPrompt);
    bindings.put(TemplateState.KEY, new TemplateState(clock));
    JinjavaInterpreter interpreter = interpreter(bindings);
    try (AutoCloseableImpl<JinjavaInterpreter> current =
        JinjavaInterpreter.closeablePushCurrent(interpreter).get()) {
      String text = interpreter.render(root, false);
      if (!interpreter.getErrors().isEmpty()) {
        throw failed(causeOf(interpreter.getErrors().get(0)));
      }
      return text;
    } catch (StackOverflowError e) {
      throw new EngineException("The chat template is nested too deeply to be rendered.");
    } catch (EngineException | IllegalArgumentException e) {
      throw e;
    } catch (RuntimeException e) {
      List<TemplateError> errors = interpreter.getErrors();
      throw failed(errors.isEmpty() ? e : causeOf(errors.get(0)));
    }
  }

  private static Renderer newRenderer() {
    LegacyOverrides overrides =
        LegacyOverrides.newBuilder()
            .withEvaluateMapKeys(true)
            .withUseNaturalOperatorPrecedence(true)
            .withParseWhitespaceControlStrictly(true)
            .withAllowAdjacentTextNodes(true)
            .build();
    JinjavaConfig config =
        JinjavaConfig.newBuilder()
            .withLegacyOverrides(overrides)
            .withTrimBlocks(false)
            .withLstripBlocks(false)
            .withNestedInterpretationEnabled(false)
            .withEnableRecursiveMacroCalls(true)
            .withMaxOutputSize(PythonValues.LARGEST)
            .build();
    Renderer renderer = new Renderer(config);
    renderer.setResourceLocator(
        (name, encoding, interpreter) -> {
          throw new TemplateFailure("a chat template can't read '" + name + "'");
        });
    Context context = renderer.getGlobalContext();
    for (Tag tag : TemplateTags.all()) {
      context.registerTag(tag);
    }
    return renderer;
  }

  private JinjavaInterpreter interpreter(Map<String, Object> bindings) {
    Context context = new Context(renderer.getGlobalContextCopy(), bindings);
    context.setExpressionStrategy(new PythonOutput());
    return new JinjavaInterpreter(renderer, context, renderer.getGlobalConfig());
  }

  private Node read(String template) {
    JinjavaInterpreter interpreter = interpreter(Map.of());
    try (AutoCloseableImpl<JinjavaInterpreter> current =
        JinjavaInterpreter.closeablePushCurrent(interpreter).get()) {
      Node parsed = interpreter.parse(template);
      if (!interpreter.getErrors().isEmpty()) {
        TemplateError error = interpreter.getErrors().get(0);
        throw new TemplateFailure("line " + error.getLineno() + ": " + error.getMessage());
      }
      checkAll(parsed);
      return parsed;
    }
  }

  /** Reads every expression once, so that a mistake shows when the model is loaded. */
  private void checkAll(Node parent) {
    for (Node node : parent.getChildren()) {
      List<String> expressions = List.of();
      if (node instanceof TagNode tag) {
        String name = tag.getName();
        boolean known =
            JINJAVA_TAGS.contains(name)
                || TemplateTags.all().stream().anyMatch(ours -> ours.getName().equals(name));
        if (!known) {
          throw new TemplateFailure("line " + node.getLineNumber() + ": no tag '" + name + "'");
        }
        expressions = TemplateTags.expressions(tag);
      } else if (node instanceof ExpressionNode expression) {
        expressions = List.of(((ExpressionToken) expression.getMaster()).getExpr());
      }
      for (String expression : expressions) {
        check(expression, node.getLineNumber());
      }
      checkAll(node);
    }
  }

  private void check(String expression, int line) {
    try {
      renderer.expressions.get("#{" + expression.trim() + "}");
    } catch (TreeBuilderException | TemplateFailure e) {
      throw new TemplateFailure("line " + line + ": " + e.getMessage());
    }
  }

  private static Throwable causeOf(TemplateError error) {
    return error.getException() == null
        ? new TemplateFailure(error.getMessage())
        : error.getException();
  }

  private static RuntimeException failed(Throwable failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof TemplateFailure own) {
        return own.isRaised()
            ? new IllegalArgumentException(own.getMessage(), failure)
            : new EngineException("The chat template failed: " + own.getMessage(), failure);
      }
    }
    return new EngineException("The chat template failed: " + failure.getMessage(), failure);
  }

  private static String messageOf(RuntimeException e) {
    return e.getMessage() == null ? e.toString() : e.getMessage();
  }

  private static ModelLoadException malformed(String message, Throwable cause) {
    return new ModelLoadException(
        "The chat template can't be read: "
            + message
            + ". Correct chat_template in tokenizer_config.json (or chat_template.jinja), or format"
            + " prompts yourself.",
        cause);
  }
}
