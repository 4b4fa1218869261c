#!/usr/bin/env bash
# What a build from scratch costs, in CPU-seconds, beside that of another checkout (an older commit, with its own compiler):
#
#   git worktree add /tmp/before 6df7062 && scripts/lab/build_cost.sh /tmp/before
#
# Both are built into directories of their own and removed again. The machine should do nothing else meanwhile.
set -euo pipefail
before="$(readlink -f "${1:?usage: scripts/lab/build_cost.sh OTHER_CHECKOUT}")"
here="$(cd "$(dirname "$0")/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kintsugi-build-cost.XXXXXX")"
trap 'rm -rf "$work"' EXIT
TIMEFORMAT='%U %S %R'

# measure NAME DIRECTORY [TARGET...]: prints CPU-seconds and wall seconds, and keeps the former in $cpu.
measure() {
  local name=$1 directory=$2
  shift 2
  read -r user system wall < <( { time ninja -C "$directory" --quiet "$@" >/dev/null; } 2>&1 | tail -1)
  cpu=$(awk -v u="$user" -v s="$system" 'BEGIN { print u + s }')
  printf '%-44s %8.1f CPU-s %8.1f s\n' "$name" "$cpu" "$wall"
}

cmake --preset release -S "$before" -B "$work/before" >/dev/null
cmake --preset release -S "$here" -B "$work/quick" >/dev/null
cmake --preset release -S "$here" -B "$work/all" >/dev/null
measure "everything, $(git -C "$before" describe --always)" "$work/before"
base=$cpu
measure "what quickstart runs, now" "$work/quick" kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager
awk -v a="$cpu" -v b="$base" 'BEGIN { printf "  ratio %.3f\n", a / b }'
measure "everything with tests, now" "$work/all"
awk -v a="$cpu" -v b="$base" 'BEGIN { printf "  ratio %.3f\n", a / b }'
for unit in metaserver/namespace/namespace.cc client/lib/client.cc common/rpc/stream.cc; do
  [ -f "$here/$unit" ] || continue
  touch "$here/$unit"
  measure "kintsugi after a change of $unit" "$work/quick" kintsugi
done
