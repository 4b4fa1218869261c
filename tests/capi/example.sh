#!/usr/bin/env bash
# Writes the first code block of a language ("c", "cc") of a document to a file: example.sh LANGUAGE DOCUMENT FILE
set -euo pipefail
awk -v fence="\`\`\`$1" '$0 == "```" { inside = 0 } inside { print } $0 == fence && !seen { inside = seen = 1 }' "$2" >"$3"
[ -s "$3" ] || { echo "$2 has no block of language $1"; exit 1; }
