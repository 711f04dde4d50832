package dev.halcyon.engine.backend.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import javassist.ClassPool;
import javassist.CtClass;
import javassist.CtMethod;
import javassist.NotFoundException;
import javassist.bytecode.BadBytecode;
import javassist.bytecode.CodeAttribute;
import javassist.bytecode.CodeIterator;
import javassist.bytecode.ConstPool;
import javassist.bytecode.Opcode;
import org.junit.jupiter.api.Test;

/**
 * Holds the shape of the hot loops that HotSpot needs to vectorise them; {@link DotTile} says why.
 */
class KernelShapeTest {

  /** HotSpot's FreqInlineSize: a method with more bytes of code is not inlined into its callers. */
  private static final int INLINED_SIZE = 325;

  private static final List<Class<?>> KERNELS =
      List.of(Bf16DotTile.class, F16DotTile.class, F32DotTile.class, VectorAttention.class);

  /** What a loop may call besides the vector module: nothing that counts against the limit. */
  private static final Set<String> ALLOWED =
      Set.of("java.lang.invoke.MethodHandle", VectorSums.class.getName(), "java.lang.Math");

  @Test
  void methodsWithVectorLoopsAreNotInlined() throws Exception {
    List<String> loops = new ArrayList<>();
    for (Class<?> kernel : KERNELS) {
      for (CtMethod method : classOf(kernel).getDeclaredMethods()) {
        if (fusedProducts(method) > 0) {
          loops.add(kernel.getSimpleName() + "." + method.getName());
          assertThat(method.getMethodInfo().getCodeAttribute().getCodeLength())
              .as("bytes of code of " + method.getLongName())
              .isGreaterThan(INLINED_SIZE);
        }
      }
    }
    assertThat(loops)
        .contains("Bf16DotTile.one", "Bf16DotTile.twoRows", "F32DotTile.one", "F32DotTile.twoRows")
        .contains("F16DotTile.twoRows", "VectorAttention.eightQueries")
        .contains("VectorAttention.fourQueries");
  }

  @Test
  void productsCallNoHelpersInTheirLoops() throws Exception {
    for (Class<?> kernel : KERNELS) {
      for (CtMethod method : classOf(kernel).getDeclaredMethods()) {
        if (fusedProducts(method) > 0) {
          for (String owner : calledClasses(method)) {
            boolean vector = owner.startsWith("jdk.incubator.vector.");
            boolean own = owner.equals(kernel.getName()) || owner.endsWith("VectorMemory");
            assertThat(vector || own || ALLOWED.contains(owner))
                .as(method.getLongName() + " calls " + owner)
                .isTrue();
          }
        }
      }
    }
  }

  @Test
  void theSumOfAnArrayIsNotInlined() throws Exception {
    for (CtMethod method : classOf(VectorSums.class).getDeclaredMethods("sum")) {
      if (method.getParameterTypes().length == 3) {
        assertThat(method.getMethodInfo().getCodeAttribute().getCodeLength())
            .isGreaterThan(INLINED_SIZE);
        return;
      }
    }
    throw new AssertionError("VectorSums has no sum of an array");
  }

  private static CtClass classOf(Class<?> type) throws IOException, NotFoundException {
    ClassPool pool = new ClassPool(true);
    return pool.get(type.getName());
  }

  private static int fusedProducts(CtMethod method) throws BadBytecode {
    int count = 0;
    for (String call : calls(method)) {
      count += call.equals("jdk.incubator.vector.FloatVector#fma") ? 1 : 0;
    }
    return count;
  }

  private static List<String> calledClasses(CtMethod method) throws BadBytecode {
    return calls(method).stream().map(call -> call.substring(0, call.indexOf('#'))).toList();
  }

  private static List<String> calls(CtMethod method) throws BadBytecode {
    List<String> calls = new ArrayList<>();
    CodeAttribute code = method.getMethodInfo().getCodeAttribute();
    if (code == null) {
      return calls;
    }
    ConstPool constants = method.getMethodInfo().getConstPool();
    CodeIterator iterator = code.iterator();
    while (iterator.hasNext()) {
      int at = iterator.next();
      int opcode = iterator.byteAt(at);
      if (opcode == Opcode.INVOKEVIRTUAL || opcode == Opcode.INVOKESTATIC) {
        int index = iterator.u16bitAt(at + 1);
        boolean ofInterface = constants.getTag(index) == ConstPool.CONST_InterfaceMethodref;
        calls.add(
            ofInterface
                ? constants.getInterfaceMethodrefClassName(index)
                    + "#"
                    + constants.getInterfaceMethodrefName(index)
                : constants.getMethodrefClassName(index) + "#" + constants.getMethodrefName(index));
      }
    }
    return calls;
  }
}
