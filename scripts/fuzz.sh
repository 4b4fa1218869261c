#!/usr/bin/env bash
# Fuzzes the parsers of outside bytes: scripts/fuzz.sh [SECONDS [NAME...]], each for SECONDS (60), by default all of them.
#
# Inputs that reached new code stay in build/fuzz/corpus/NAME, where the next run goes on. Stops at the first parser that
# breaks a promise, with the command that replays it.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-60}"
shift || true
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do names+=("$(basename "$source" _fuzz.cc)"); done
fi

[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${names[@]/%/_fuzz}" -- --quiet

for name in "${names[@]}"; do
  corpus="build/fuzz/corpus/$name" found="build/fuzz/found/$name"
  mkdir -p "$corpus" "$found"
  fuzzer="build/fuzz/bin/${name}_fuzz"
  log="build/fuzz/found/$name.log"
  if ! KINTSUGI_FUZZ_CORPUS="$corpus" "$fuzzer" "$corpus" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
      -artifact_prefix="$found/" -print_final_stats=1 >"$log" 2>&1; then
    tail -n 60 "$log"
    input="$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)"
    echo "$name broke a promise. Replay: $fuzzer $input"
    exit 1
  fi
  echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs," \
       "$(find "$corpus" -type f | wc -l) in the corpus, nothing found"
done
