#!/usr/bin/env bash
# A folder includes only what stands below it (docs/ARCHITECTURE.md): servers never include each other's headers.
# Prints each violation; exits 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/../.."

declare -A allowed=(
  [common]="common"
  [erasure]="common erasure"
  [monitoring]="common erasure monitoring"
  [partial_sum]="common erasure monitoring partial_sum"
  [chunkserver]="common erasure monitoring partial_sum chunkserver"
  [metaserver]="common erasure monitoring metaserver"
  [repair_manager]="common erasure monitoring repair_manager"
  [client]="common erasure monitoring partial_sum client"
)
# The two places where a daemon is put together from its parts, and Context's forward-declared recorder.
exempt='^(metaserver/daemon/|metaserver/main\.cc)'

violations=0
for layer in "${!allowed[@]}"; do
  while IFS=: read -r file line include; do
    [[ $file =~ $exempt ]] && continue
    target=$(sed -E 's/.*"([a-z_]+)\/.*/\1/' <<<"$include")
    [[ " ${allowed[$layer]} " == *" $target "* ]] && continue
    echo "$file:$line: $layer must not include $target"
    violations=$((violations + 1))
  done < <(grep -rnE '^#include "[a-z_]+/' --include='*.h' --include='*.cc' "$layer")
done

# Time, network, disk and randomness only through the runtime seam.
seam='asio::(steady_timer|system_timer|ip::)|std::(random_device|mt19937|ofstream|ifstream|filesystem)|steady_clock::now|system_clock::now|::getrandom'
while IFS= read -r found; do
  echo "$found  <- outside the runtime seam"
  violations=$((violations + 1))
done < <(grep -rnE "$seam" --include='*.h' --include='*.cc' partial_sum chunkserver metaserver repair_manager client/lib |
         grep -vE '^(chunkserver|metaserver)/main\.cc' || true)

echo "layering: $violations violations"
[ "$violations" -eq 0 ]
