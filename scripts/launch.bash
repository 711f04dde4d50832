# Builds what is missing or older than its sources, and runs a command of engine-tests: for scripts to
# source. Needs a JDK (JAVA_HOME, or java on the PATH) and Maven. All but what the command puts out
# goes to standard error.

root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$root/engine-tests/target
classpath_file=$target/runtime-classpath.txt
stamp=$target/build.stamp # as old as the start of the last build

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

up_to_date() {
  [[ -f $stamp && -f $classpath_file && -d $target/classes ]] || return 1
  # Folders count too: theirs is the only time that changes when a source is deleted.
  [[ -z $(find "$root"/pom.xml "$root"/engine-*/pom.xml "$root"/engine-*/src/main \
    -newer "$stamp" -print -quit) ]] || return 1
  local entry entries
  IFS=: read -r -a entries <"$classpath_file" || true
  for entry in "${entries[@]}"; do
    [[ -e $entry ]] || return 1
  done
}

build() {
  command -v mvn >/dev/null || fail "Maven (mvn) is not on the PATH; it is needed to build"
  echo "Building Halcyon (the first time, this downloads its dependencies) ..." >&2
  mkdir -p "$target"
  touch "$stamp.new"
  (cd "$root" && mvn -q -B -Dmaven.test.skip=true package </dev/null >&2) ||
    fail "the build failed; its messages are above"
  mv "$stamp.new" "$stamp"
}

if [[ -n ${JAVA_HOME:-} ]]; then
  java=$JAVA_HOME/bin/java
  [[ -x $java ]] || fail "JAVA_HOME is $JAVA_HOME, which has no bin/java"
else
  java=$(command -v java) || fail "there is no java on the PATH, and JAVA_HOME is not set"
fi

up_to_date || build

options=(
  --add-modules=jdk.incubator.vector
  --enable-native-access=ALL-UNNAMED
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn
)
# Java can't tell whether standard error is a terminal.
if [[ -t 2 ]]; then
  options+=(-Dhalcyon.progress=true)
fi
# In the C locale the JVM would read a prompt as ASCII.
case ${LC_ALL:-${LC_CTYPE:-${LANG:-C}}} in
  C | POSIX) export LC_ALL=C.UTF-8 ;;
esac

# Runs a command: its class among the examples, then its arguments.
launch() {
  local command=$1
  shift
  exec "$java" "${options[@]}" -cp "$target/classes:$(<"$classpath_file")" \
    "dev.halcyon.engine.examples.$command" "$@"
}
