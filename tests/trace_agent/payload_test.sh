#!/usr/bin/env bash
# What runs at a sled calls nobody else's function and uses none but general registers: payload_test.sh ARCHIVE-OF-THE-AGENT.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
ar x "$1" payload.cc.o patching.cc.o
foreign=$(nm -u -A ./*.o | grep -vE ' U (_ZN8kintsugi7tracing|kintsugi_trace_)' || true)
[ -z "$foreign" ] || { echo "the payload calls: $foreign"; exit 1; }
if objdump -d --no-show-raw-insn ./*.o | grep -E '%([xyz]mm|st|k)[0-9(]'; then
  echo "the payload uses other registers"
  exit 1
fi
echo "payload: calls nobody, uses general registers only"
