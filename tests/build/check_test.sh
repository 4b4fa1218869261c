#!/usr/bin/env bash
# What scripts/check.sh repeats, and what it refuses: in a small repository whose steps only count how often they run.
#
#   tests/build/check_test.sh SOURCE_DIRECTORY
set -euo pipefail
source="$(cd "$1" && pwd)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

mkdir -p scripts tests/build build/test/bin bin
cp "$source/scripts/check.sh" scripts/
for step in scripts/install_deps.sh scripts/build.sh bin/cmake bin/ninja; do printf '#!/bin/sh\n' >$step; done
count() { printf '#!/bin/sh\necho "$0 $*" >>%s/runs\n' "$work"; }
for step in tests/build/format_test.sh scripts/fuzz.sh build/test/bin/kintsugi-simulate bin/clang-tidy-19; do
  count >$step
done
chmod +x scripts/*.sh tests/build/*.sh build/test/bin/* bin/*
export PATH="$work/bin:$PATH"
unset BASE SEED
git init -q . && git config user.name check && git config user.email check@example.org
printf '/build/\n/bin/\n/runs\n/output\n' >.gitignore
commit() { git add -A && git commit -q -m "$1"; }
echo "int one;" >one.cc && commit one
echo "int two;" >two.cc && commit two

failures=0
expect() { # RUNS WHAT COMMAND...: so many runs of steps come of the command, and it ends well
  local runs=$1 what=$2
  shift 2
  : >runs
  env "$@" >output 2>&1 || { echo "$what: failed: $(cat output)"; failures=1; }
  [ "$(wc -l <runs)" = "$runs" ] || { echo "$what: $(wc -l <runs) runs instead of $runs: $(cat runs)"; failures=1; }
}

expect 2 "two steps run" scripts/check.sh format fuzz
expect 0 "steps that passed are not repeated" scripts/check.sh format fuzz
echo "int one_and_a_half;" >new.cc
expect 1 "a file that git does not know yet has a step repeated" scripts/check.sh format
expect 1 "and it is tidied" BASE=HEAD scripts/check.sh tidy
echo "int changed;" >new.cc
expect 1 "as it is when it changes" scripts/check.sh format
commit new
expect 2 "another base has more sources tidied" BASE=HEAD~2 scripts/check.sh tidy
expect 1 "a step that passed for one base runs for another" BASE=HEAD~1 scripts/check.sh tidy
expect 1 "other seeds are simulated" SEED=1 scripts/check.sh seeds
expect 1 "and others again" SEED=2 scripts/check.sh seeds
expect 0 "but not the same" SEED=2 scripts/check.sh seeds

if BASE=nonsense scripts/check.sh tidy >output 2>&1; then
  echo "a base that is no commit passes: $(cat output)"
  failures=1
fi
exit "$failures"
