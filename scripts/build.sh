#!/usr/bin/env bash
# Builds one preset (default: release) and leaves the executables in build/<preset>/bin.
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-release}"
scripts/install_deps.sh
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" -- --quiet
