#!/usr/bin/env bash
# A precompiled header pays only if an empty file that uses it is cheap: templates that it leaves pending are instantiated
# in every file. Compiles an empty file against each one and fails when that takes more than 2 s of CPU.
#
#   tests/build/pch_test.sh BUILD_DIRECTORY
set -euo pipefail
cd "$1"
limit=2.0
attempts=3  # the least counts: a busy machine only adds

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/empty.cc"
TIMEFORMAT='%U %S'

# Each precompiled header is made by a target of its own, which compiles pch.cc against it: that command, with the empty file.
mapfile -t commands < <(grep -E '"command": .* -o [^ ]*CMakeFiles/kintsugi_[a-z_]*pch\.dir/[^ ]*/pch\.cc\.o ' compile_commands.json |
                        sed -E 's/^ *"command": "(.*)",$/\1/; s/\\"/"/g; s/\\\\/\\/g')
if [ "${#commands[@]}" -eq 0 ]; then
  echo "no precompiled header in $1/compile_commands.json"
  exit 1
fi

failures=0
for command in "${commands[@]}"; do
  name=$(sed -E 's/.* -o ([^ ]*\/)?CMakeFiles\/([^ /]*)\.dir\/.*/\2/' <<<"$command")
  probe=$(sed -E "s# -o [^ ]+ -c [^ ]+\$# -o $work/empty.o -c $work/empty.cc#" <<<"$command")
  least=""
  for ((attempt = 0; attempt < attempts; attempt++)); do
    if ! used=$({ time eval "$probe" >"$work/log" 2>&1; } 2>&1); then
      cat "$work/log"
      exit 1
    fi
    least=$(awk -v least="$least" '{ t = $1 + $2; print (least == "" || t < least) ? t : least }' <<<"$used")
    if awk -v t="$least" -v limit="$limit" 'BEGIN { exit t > limit }'; then
      break
    fi
  done
  verdict=ok
  if awk -v t="$least" -v limit="$limit" 'BEGIN { exit t <= limit }'; then
    verdict="dearer than $limit s"
    failures=$((failures + 1))
  fi
  printf '%s: an empty file takes %.2f s of CPU: %s\n' "$name" "$least" "$verdict"
done
[ "$failures" -eq 0 ]
