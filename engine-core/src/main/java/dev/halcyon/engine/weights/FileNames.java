package dev.halcyon.engine.weights;

/** What may be the name of a file of a checkpoint: one that can't lead out of its folder. */
final class FileNames {

  private FileNames() {}

  static boolean isPlain(String name) {
    return !name.isBlank()
        && !name.equals(".")
        && !name.equals("..")
        && name.chars().noneMatch(c -> c == '/' || c == '\\' || c == ':' || c < ' ');
  }

  static String requirePlain(String name) {
    if (!isPlain(name)) {
      throw new IllegalArgumentException(
          "name must be a plain file name without folders, not '" + name + "'");
    }
    return name;
  }
}
