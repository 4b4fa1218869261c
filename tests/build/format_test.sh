#!/usr/bin/env bash
# Fails when a C++ source or header is not formatted as .clang-format says, and names it. The C library's header and the C
# programs are left out: their style is that of C.
#
#   tests/build/format_test.sh [SOURCE_DIRECTORY]
set -euo pipefail
cd "${1:-.}"
command -v clang-format-19 >/dev/null || { echo "clang-format-19 is missing: scripts/install_deps.sh installs it"; exit 1; }

formatted() {
  find client chunkserver common erasure metaserver monitoring partial_sum repair_manager tests tracing \
       -path client/capi/include -prune -o -path tests/capi/program -prune -o \( -name '*.cc' -o -name '*.h' \) -print0
}
if ! wrong=$(formatted | xargs -0 -n 100 clang-format-19 --dry-run -Werror 2>&1); then
  sed -n 's/^\([^:]*\):[0-9]*:.*error: .*/\1/p' <<<"$wrong" | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2: \1 places/'
  echo "Run: clang-format-19 -i FILE"
  exit 1
fi
