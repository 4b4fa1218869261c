#!/usr/bin/env bash
# Builds the programs of the version before, in DIRECTORY/build/release/bin, for scripts/lab/upgrade.py. Their commit stands in
# scripts/previous_release.
#
#   scripts/build_previous.sh DIRECTORY      a new one, which becomes a work tree of this repository
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root="$(cd "$(dirname "$0")/.." && pwd)"
git -C "$root" worktree add --detach "$(realpath -m "$1")" "$(cat "$root/scripts/previous_release")"
"$1/scripts/build.sh" release kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager kintsugi-monitor kintsugi-mount
