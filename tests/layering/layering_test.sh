#!/usr/bin/env bash
# What stands above is not known below (docs/ARCHITECTURE.md): neither between the areas (top folders) nor between the
# rooms of one. Prints each violation; exits 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/../.."

# What an area may know beside itself: servers never know one another.
declare -A below=(
  [common]=""
  [erasure]="common"
  [monitoring]="common tracing"
  [tracing]="common"
  [partial_sum]="common erasure monitoring"
  [chunkserver]="common erasure monitoring partial_sum tracing"
  [metaserver]="common erasure monitoring tracing"
  [repair_manager]="common erasure monitoring partial_sum client tracing"
  [client]="common erasure monitoring partial_sum tracing"
)

# The rooms of an area from the bottom up: each knows itself and those before it. A room is a folder, or those files of a
# folder that stand on a floor of their own.
declare -A rooms=(
  [common]="base log proto posix metrics runtime runtime/tls runtime/production config rpc http daemon proto/pch"
  [monitoring]="sampling metrics/trace recording metrics/orion metrics/augury metrics/rams metrics/blacksheep judging sight/tables sight model progress/strong_components progress/evidence progress/counts progress/waits progress/slowness progress progress/texts similarity gray behaviour daemon analysis judge_command metrics_command main"
  [tracing]="records repository agent flow anomaly cause events"
  [chunkserver]="store/disk store/segments store repair service main"
  [metaserver]="kv schema namespace cluster chunks repair sessions service daemon main"
  [repair_manager]="trees view plan joint manager what_if compaction daemon main"
  [client]="lib lib/operations lib/degraded lib/read lib/write lib/leases lib/dirty lib/files lib/check lib/client lib/blocking_client pch capi mount/kernel mount cli main"
)

violations=0
report() {
  echo "$1"
  violations=$((violations + 1))
}

# Lines of an area's files that match a pattern, comments left out: FILE:LINE:TEXT.
lines_of() {
  grep -rnE "$2" --include='*.h' --include='*.cc' "$1" | grep -vE '^[^:]+:[0-9]+: *//' || true
}

for area in "${!below[@]}"; do
  unknown=""
  for other in "${!below[@]}" sight; do
    home=${other/#sight/monitoring}
    [[ " $area ${below[$area]} " == *" $home "* ]] || unknown+="|$other"
  done
  [ -z "$unknown" ] && continue
  unknown=${unknown#|}
  # By an include, or by a name: a forward declaration is an arrow too.
  while IFS= read -r found; do
    [[ -z $found ]] && continue
    # `kintsugi plan` shows closed forms, and `kintsugi repair what-if` runs a repair manager in virtual time.
    [[ $found == client/cli/plan_command.cc:*'"repair_manager/what_if/cluster_plan.h"' ]] && continue
    [[ $found == client/cli/what_if_*.cc:*'"repair_manager/what_if/'*'.h"' ]] && continue
    report "$found  <- $area does not know this"
  done < <(lines_of "$area" "^#include \"($unknown)/|(^|[^a-zA-Z0-9_:/\"])(kintsugi::)?($unknown)::|^namespace kintsugi::($unknown)\\>")
done

for area in "${!rooms[@]}"; do
  while IFS= read -r found; do
    [[ -n $found ]] && report "$found"
  done < <(lines_of "$area" "^#include \"$area/" | awk -v area="$area" -v order="${rooms[$area]}" '
    function floor_of(path,   i, best, length_of_best) {
      best = 0; length_of_best = -1
      for (i = 1; i <= count; i++)
        if (match(path, "^" area "/" names[i] "[/.]") && length(names[i]) > length_of_best) {
          best = i; length_of_best = length(names[i])
        }
      return best
    }
    BEGIN { count = split(order, names, " ") }
    {
      split($0, part, ":")
      split($0, quoted, "\"")
      from = floor_of(part[1]); to = floor_of(quoted[2])
      if (from == 0) print part[1] ": in no room that tests/layering knows"
      else if (to > from) print part[1] ":" part[2] ": " names[from] " does not know " quoted[2]
    }')
done

while IFS= read -r found; do
  [[ -n $found ]] && report "$found  <- only monitoring/sight is known to what it watches"
done < <(grep -rnE '^#include "monitoring/' --include='*.h' --include='*.cc' partial_sum chunkserver metaserver repair_manager client |
         grep -vE '^[^:]+:[0-9]+:#include "monitoring/sight/' || true)

# Who is traced knows the agent's call, and that it listens for its signal, and nothing else of tracing; the command line reads traces, and has itself recorded.
while IFS= read -r found; do
  [[ -n $found ]] && report "$found  <- of tracing only the call of the agent is known, and to the command line what reads traces"
done < <(grep -rnE '^#include "tracing/' --include='*.h' --include='*.cc' monitoring partial_sum chunkserver metaserver repair_manager client |
         grep -vE '^[^:]+:[0-9]+:#include "tracing/agent/(trace_service|signalled).h"|^client/cli/[^:]+:[0-9]+:#include "tracing/(agent/own_recording\.h"|(records|events|flow|anomaly|cause)/)' || true)

# Compaction moves bytes as clients do: it knows how they read and write stripes, and nothing of what users of files need.
while IFS= read -r found; do
  [[ -n $found ]] && report "$found  <- the repair manager knows only how clients read and write stripes, and only for compaction"
done < <(grep -rnE '^#include "client/' --include='*.h' --include='*.cc' repair_manager |
         grep -vE '^repair_manager/compaction/[^:]+:[0-9]+:#include "client/lib/((read|write)/)?[a-z_]+\.h"' || true)

# Time, network, disk and randomness only through the runtime seam.
seam='asio::(steady_timer|system_timer|ip::)|std::(random_device|mt19937|ofstream|ifstream|filesystem)|steady_clock::now|system_clock::now|::getrandom'
while IFS= read -r found; do
  report "$found  <- outside the runtime seam"
done < <(grep -rnE "$seam" --include='*.h' --include='*.cc' partial_sum chunkserver metaserver repair_manager client/lib |
         grep -vE '^(chunkserver|metaserver)/main\.cc' || true)

echo "layering: $violations violations"
[ "$violations" -eq 0 ]
