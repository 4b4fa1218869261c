#!/usr/bin/env bash
# Builds one preset and leaves the executables in build/<preset>/bin.
#
#   scripts/build.sh [PRESET [TARGET...]]    default: release, everything but the benchmarks (target `benchmarks`)
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-release}"
[ $# -gt 0 ] && shift
scripts/install_deps.sh
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" ${1:+--target "$@"} -- --quiet
