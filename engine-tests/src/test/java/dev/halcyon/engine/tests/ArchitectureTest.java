package dev.halcyon.engine.tests;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideOutsideOfPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.fields;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.library.GeneralCodingRules;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The arrows of docs/architecture.md, between modules and between the packages of engine-core. */
class ArchitectureTest {

  private static final String ROOT = "dev.halcyon.engine";
  private static final String TESTS = "engine-tests";

  /**
   * Which of the core's packages, and engine-logits, each package may use; "" is the public API.
   */
  private static final Map<String, List<String>> CORE_ARROWS =
      Map.of(
          "kvcache", List.of(),
          "sampling", List.of("", "logits"),
          "backend", List.of("", "sampling", "logits"),
          "backend.cpu", List.of("backend", "sampling", "logits"),
          "transfer", List.of("", "logits"),
          "weights", List.of("", "backend"),
          "tokenizer", List.of("", "weights"),
          "model", List.of("", "weights", "backend", "logits"),
          "executor",
              List.of(
                  "",
                  "kvcache",
                  "sampling",
                  "backend",
                  "transfer",
                  "weights",
                  "tokenizer",
                  "model",
                  "logits"),
          "",
              List.of(
                  "executor",
                  "kvcache",
                  "sampling",
                  "backend",
                  "transfer",
                  "weights",
                  "tokenizer",
                  "model",
                  "logits"));

  /**
   * A single class that a package may use beyond its arrows, because it is a value that both speak
   * of.
   */
  private static final Map<String, String> CORE_EXCEPTIONS =
      Map.of("model", "dev.halcyon.engine.sampling.SamplingDefaults");

  /** Which modules each module may use. */
  private static final Map<String, List<String>> MODULE_ARROWS =
      Map.of(
          "engine-logits", List.of(),
          "engine-core", List.of("engine-logits"),
          "engine-cuda", List.of("engine-core", "engine-logits"),
          "engine-disagg", List.of("engine-core", "engine-logits"));

  private static final Map<String, String> MODULE_OF_PACKAGE =
      Map.of(
          "logits", "engine-logits",
          "cuda", "engine-cuda",
          "disagg", "engine-disagg",
          "examples", TESTS,
          "benchmarks", TESTS);

  private static final JavaClasses CLASSES =
      new ClassFileImporter()
          .withImportOption(new ImportOption.DoNotIncludeTests())
          .withImportOption(location -> !location.contains("-tests.jar"))
          .importPackages(ROOT);

  private static final ArchRule NO_REFLECTION =
      noClasses().should().dependOnClassesThat().resideInAPackage("java.lang.reflect..");

  /** Interfaces, records and enums say themselves what they are; an exception may have kinds. */
  private static final ArchRule FINAL_CLASSES =
      classes()
          .that()
          .areNotInterfaces()
          .and()
          .areNotEnums()
          .and()
          .areNotAnonymousClasses()
          .and(
              DescribedPredicate.describe(
                  "are not extended exceptions",
                  type ->
                      !(type.isAssignableTo(RuntimeException.class)
                          && !type.getSubclasses().isEmpty())))
          .should()
          .haveModifier(JavaModifier.FINAL);

  private static final ArchRule NO_STATIC_STATE = fields().that().areStatic().should().beFinal();

  static Set<String> modules() {
    return MODULE_ARROWS.keySet();
  }

  static Set<String> corePackages() {
    return CORE_ARROWS.keySet();
  }

  @ParameterizedTest
  @MethodSource("modules")
  void aModuleUsesOnlyThoseBelowIt(String module) {
    classes()
        .that(inModule(module))
        .should()
        .onlyDependOnClassesThat(
            foreign()
                .or(inModule(module))
                .or(
                    DescribedPredicate.describe(
                        "are in " + MODULE_ARROWS.get(module),
                        type -> MODULE_ARROWS.get(module).contains(moduleOf(element(type))))))
        .allowEmptyShould(!hasCode(module))
        .check(CLASSES);
  }

  @ParameterizedTest
  @MethodSource("corePackages")
  void aCorePackageUsesOnlyThoseBelowIt(String name) {
    String[] allowed =
        Stream.concat(Stream.of(name), CORE_ARROWS.get(name).stream())
            .map(ArchitectureTest::qualified)
            .toArray(String[]::new);
    classes()
        .that(resideInAPackage(qualified(name)))
        .should()
        .onlyDependOnClassesThat(
            foreign()
                .or(resideInAnyPackage(allowed))
                .or(type(CORE_EXCEPTIONS.getOrDefault(name, "nothing else"))))
        .check(CLASSES);
  }

  @Test
  void corePackagesDoNotUseTheFacadeAboveThem() {
    noClasses()
        .that(inModule("engine-core"))
        .and(not(resideInAPackage(ROOT)))
        .should()
        .dependOnClassesThat()
        .haveNameMatching("dev\\.halcyon\\.engine\\.(Engine|EngineBuilder|EngineMeterBinder)")
        .check(CLASSES);
  }

  /** The public API is exempt: it holds the values that all packages share, and the facade. */
  @Test
  void packagesFormNoCycles() {
    slices().matching(ROOT + ".(**)").should().beFreeOfCycles().check(CLASSES);
  }

  @Test
  void everyPackageOfTheCoreHasItsArrows() {
    Set<String> found =
        CLASSES.stream()
            .filter(type -> moduleOf(type).equals("engine-core"))
            .map(type -> relative(type.getPackageName()))
            .collect(Collectors.toCollection(TreeSet::new));
    assertThat(found).isEqualTo(new TreeSet<>(CORE_ARROWS.keySet()));
  }

  /** A class is in the module that its package says, so that no package is split. */
  @Test
  void packagesLieInTheirModules() {
    for (JavaClass type : CLASSES) {
      assertThat(type.getSource().orElseThrow().getUri().toString())
          .as(type.getName())
          .contains("/" + moduleOf(type) + "/");
    }
  }

  @Test
  void nothingUsesReflection() {
    NO_REFLECTION.check(CLASSES);
  }

  @Test
  void classesAreFinal() {
    FINAL_CLASSES.check(CLASSES);
  }

  @Test
  void noStateIsStaticAndMutable() {
    NO_STATIC_STATE.check(CLASSES);
  }

  @Test
  void theLibraryLogsThroughSlf4jOnly() {
    JavaClasses library = CLASSES.that(not(inModule(TESTS)));
    GeneralCodingRules.NO_CLASSES_SHOULD_ACCESS_STANDARD_STREAMS.check(library);
    GeneralCodingRules.NO_CLASSES_SHOULD_USE_JAVA_UTIL_LOGGING.check(library);
  }

  /**
   * Each rule sees this class's sample of what it forbids; one that saw nothing would always pass.
   */
  @Test
  void theRulesCanFail() {
    JavaClasses sample = new ClassFileImporter().importClasses(Sample.class);
    for (ArchRule rule : List.of(NO_REFLECTION, FINAL_CLASSES, NO_STATIC_STATE)) {
      assertThat(rule.evaluate(sample).hasViolation()).as(rule.getDescription()).isTrue();
    }
  }

  /** Uses that are there must be seen: forbidding them has to fail. */
  @ParameterizedTest
  @ValueSource(strings = {"backend>logits", "sampling>", "weights>backend", "backend.cpu>backend"})
  void theArrowsThatThereAreAreSeen(String arrow) {
    String[] ends = arrow.split(">", -1);
    assertThat(
            noClasses()
                .that()
                .resideInAPackage(qualified(ends[0]))
                .should()
                .dependOnClassesThat()
                .resideInAPackage(qualified(ends[1]))
                .evaluate(CLASSES)
                .hasViolation())
        .isTrue();
  }

  private static String qualified(String relative) {
    return relative.isEmpty() ? ROOT : ROOT + "." + relative;
  }

  private static String relative(String packageName) {
    return packageName.equals(ROOT) ? "" : packageName.substring(ROOT.length() + 1);
  }

  private static DescribedPredicate<JavaClass> foreign() {
    return resideOutsideOfPackage("dev.halcyon..");
  }

  private static DescribedPredicate<JavaClass> type(String name) {
    return DescribedPredicate.describe("are " + name, type -> element(type).getName().equals(name));
  }

  private static DescribedPredicate<JavaClass> inModule(String module) {
    return resideInAPackage("dev.halcyon..")
        .and(DescribedPredicate.describe("in " + module, type -> module.equals(moduleOf(type))));
  }

  private static boolean hasCode(String module) {
    return CLASSES.stream().anyMatch(inModule(module));
  }

  private static JavaClass element(JavaClass type) {
    return type.getBaseComponentType();
  }

  private static String moduleOf(JavaClass type) {
    if (!type.getPackageName().startsWith(ROOT)) {
      return "";
    }
    String first = relative(type.getPackageName()).split("\\.")[0];
    return MODULE_OF_PACKAGE.getOrDefault(first, "engine-core");
  }

  /** What the rules forbid. */
  static class Sample {
    static int state;

    Object reflect() throws ReflectiveOperationException {
      return Sample.class.getDeclaredConstructor().newInstance();
    }
  }
}
