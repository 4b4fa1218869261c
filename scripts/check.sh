#!/usr/bin/env bash
# Everything that is too long for a test run: scripts/check.sh [STEP...], by default all steps in this order.
#
#   format      every C++ source is formatted
#   tidy        clang-tidy on the sources that differ from BASE (a commit; the one before the last by default)
#   benchmarks  every benchmark compiles: a test run builds none
#   asan        the whole suite under the address and undefined behaviour sanitizers
#   tsan        the whole suite under the thread sanitizer
#   fuzz        every parser of outside bytes for a minute
#   mutants     the known bugs that few seeds catch
#   seeds       500 simulated clusters from SEED on (drawn from the clock by default)
#
# What a step printed is in build/check/STEP.log. A run that was interrupted goes on where it stopped: a step that
# passed is repeated only when a file has changed since, or when it gets another BASE or SEED. The exit status is 1 when
# a step failed.
set -euo pipefail
cd "$(dirname "$0")/.."
base="${BASE:-HEAD~1}"
seed="${SEED:-$(date +%s)}"
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(format tidy benchmarks asan tsan fuzz mutants seeds)
for step in "${steps[@]}"; do
  case "$step" in
    format | tidy | benchmarks | asan | tsan | fuzz | mutants | seeds) ;;
    *) echo "check: no step is called $step; see the head of scripts/check.sh" >&2; exit 2 ;;
  esac
done
base="$(git rev-parse --verify --quiet "$base^{commit}")" ||
  { echo "check: ${BASE:-HEAD~1} is no commit of this clone: set BASE to the one to compare with" >&2; exit 2; }
mkdir -p build/check

format() {
  scripts/install_deps.sh --check
  tests/build/format_test.sh .
}

tidy() {
  local changed=()
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- '*.cc'
                         git ls-files --others --exclude-standard -- '*.cc')
  [ ${#changed[@]} -gt 0 ] || { echo "no source differs from $base"; return 0; }
  scripts/install_deps.sh --check
  # The linter needs a command for each source, and the precompiled headers.
  cmake --preset test -B build/tidy -DCMAKE_UNITY_BUILD=OFF >/dev/null
  ninja -C build/tidy -t targets all | sed -n 's/^\(.*cmake_pch\.hxx\.pch\): .*/\1/p' |
    xargs ninja -C build/tidy --quiet
  printf '%s\0' "${changed[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 -p build/tidy --quiet
}

benchmarks() { scripts/build.sh test benchmarks; }
asan() { KINTSUGI_PRESET=asan scripts/test.sh; }
tsan() { KINTSUGI_PRESET=tsan scripts/test.sh; }

fuzz() {
  scripts/install_deps.sh
  scripts/fuzz.sh 60
}

mutants() {
  scripts/build.sh test
  scripts/mutants.py --short
}

seeds() {
  scripts/build.sh test
  build/test/bin/kintsugi-simulate --seeds "$seed..$((seed + 499))"
}

# What is checked: the commit, and whatever differs from it or is new.
tree="$(git rev-parse HEAD) $({ git diff HEAD; git ls-files -z --others --exclude-standard | xargs -0 -r sha256sum; } |
  sha256sum | cut -c1-16)"
failed=()
for step in "${steps[@]}"; do
  subject="$tree"
  case "$step" in
    tidy) subject+=" since $base" ;;
    seeds) subject+="${SEED:+ from $SEED}" ;;
  esac
  if [ "$(cat "build/check/$step.passed" 2>/dev/null)" = "$subject" ]; then
    echo "$step: passed before"
    continue
  fi
  start=$SECONDS
  # A shell of its own: within a condition, set -e would not end a step at its first failure.
  if bash -c "$(declare -f "$step"); base='$base' seed='$seed'; set -euo pipefail; $step" \
      >"build/check/$step.log" 2>&1; then
    echo "$subject" >"build/check/$step.passed"
    echo "$step: passed in $((SECONDS - start)) s"
  else
    echo "$step: FAILED after $((SECONDS - start)) s; the end of build/check/$step.log:"
    tail -n 15 "build/check/$step.log" | sed 's/^/    /'
    failed+=("$step")
  fi
done
[ ${#failed[@]} -eq 0 ]
