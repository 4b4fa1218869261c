#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. Arguments go to ctest (e.g. -R ChunkStore).
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${KINTSUGI_PRESET:-test}"
start=$SECONDS
scripts/build.sh "$preset"
echo "Built preset $preset in $((SECONDS - start)) s."
# Two more than there are processors: tests of clusters mostly wait.
ctest --preset "$preset" -j "$(($(nproc) + 2))" "$@"
