#!/usr/bin/env bash
# Says where the time of a build went: its ten dearest commands, and the sum of each target. Wall seconds of ninja's log, the
# last run of each command; on a busy machine only their proportions mean something.
#
#   scripts/dearest_units.sh [PRESET]    default: release
set -euo pipefail
cd "$(dirname "$0")/.."
log="build/${1:-release}/.ninja_log"
[ -f "$log" ] || { echo "$log: not there, build the preset first" >&2; exit 1; }

# start ms, end ms, time stamp, output, hash of the command; a command with several outputs is one line for each.
seconds() {
  awk -F'\t' '!/^#/ { last[$5] = $2 - $1; output[$5] = $4 }
              END { for (command in last) printf "%.1f\t%s\n", last[command] / 1000, output[command] }' "$log"
}

echo "dearest commands, s"
seconds | sort -rn | sed -n 1,10p
echo
echo "targets, s and commands"
seconds | awk -F'\t' '
  {
    target = $2
    if (match(target, /CMakeFiles\/[^\/]+\.dir\//)) {
      target = substr(target, RSTART + 11, RLENGTH - 16)
    } else if (target ~ /\.pb\.(h|cc)$/) {
      target = "protoc"
    } else {
      sub(/.*\//, "", target); sub(/^lib/, "", target); sub(/\.a$/, "", target)
    }
    sum[target] += $1; count[target]++
  }
  END { for (target in sum) printf "%.1f\t%d\t%s\n", sum[target], count[target], target }' | sort -rn
