#!/usr/bin/env bash
# From nothing to a repaired cluster on one machine: installs what is missing, builds, starts a cluster of ten
# chunkservers, stores a real directory tree, kills a chunkserver, reads everything back through the loss, waits while the
# cluster repairs itself, verifies every byte, mounts it and kills another chunkserver under a copy, and says what it did.
#
#   scripts/quickstart.sh [SOURCE_DIRECTORY]
set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
"$root/scripts/build.sh" release kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager kintsugi-mount kintsugi-monitor  # what runs below

# A compiler installation is a real tree of every machine that got this far: large binaries and many small headers.
source_dir="$(readlink -f "${1:-$(clang-19 -print-resource-dir)}")"
[ -d "$source_dir" ] || { echo "quickstart: $source_dir is not a directory" >&2; exit 2; }

bin="$root/build/release/bin"
work="$(mktemp -d "${TMPDIR:-/tmp}/kintsugi-quickstart.XXXXXX")"
export PATH="$bin:$PATH"

finish() {
  status=$?
  mountpoint -q "$work/mnt" && umount -l "$work/mnt" || true
  [ -d "$work/cluster" ] && kintsugi cluster stop --dir "$work/cluster" >/dev/null 2>&1 || true
  if [ $status -eq 0 ]; then rm -rf "$work"; else echo "quickstart failed; logs are in $work/cluster/log" >&2; fi
}
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }
clock() { date +%s.%N; }
seconds() { awk -v a="$1" -v b="$(clock)" 'BEGIN { printf "%.2f s", b - a }'; }
# Names, kinds and contents; symbolic links are not stored.
copy_without_links() { mkdir -p "$2" && (cd "$1" && find . -type l -prune -o \( -type f -o -type d \) -print0 | tar --no-recursion --null -T - -cf -) | tar -C "$2" -xf -; }

say "Starting a cluster: 1 metaserver, 10 chunkservers, policy rs-6-3-1024k"
t=$(clock)
kintsugi cluster start --dir "$work/cluster" --chunkservers 10 --policy rs-6-3-1024k --repair-delay 0
. "$work/cluster/env"
echo "up after $(seconds "$t")"

say "Storing $source_dir"
copy_without_links "$source_dir" "$work/original"
head -c 400M /dev/urandom >"$work/original/random-400M"
du -sh --apparent-size "$work/original" | awk '{ print $1 " in " }' | tr -d '\n'
find "$work/original" -type f | wc -l | awk '{ print $1 " files" }'
t=$(clock)
kintsugi mkdir /quickstart
kintsugi put "$work/original" /quickstart/tree
echo "stored, synced and committed in $(seconds "$t")"
kintsugi df

say "Killing a chunkserver with kill -9"
victim_pid_file="$work/cluster/run/chunkserver-3.pid"
victim_pid="$(awk '{ print $1; exit }' "$victim_pid_file")"
kill -9 "$victim_pid"
echo "chunkserver 3 (pid $victim_pid) is gone"

say "Reading everything back through the loss"
t=$(clock)
kintsugi get /quickstart/tree "$work/degraded"
diff -r "$work/original" "$work/degraded"
echo "every byte is right, read in $(seconds "$t")"

say "The cluster repairs itself: ten seconds after the last word of a server it counts as dead"
repaired() { kintsugi repair status --json | grep -o '"done": *[0-9]*' | grep -o '[0-9]*'; }
noticed=""
for _ in $(seq 1 300); do
  # fsck fails while chunks hang on a server that is silent, and then while they are missing.
  if kintsugi fsck /quickstart >"$work/fsck" 2>&1 && [ "$(repaired)" -gt 0 ]; then break; fi
  if [ -z "$noticed" ] && grep -q ": missing chunks" "$work/fsck"; then noticed=$(clock); fi
  sleep 0.2
done
[ "$(repaired)" -gt 0 ] || { echo "quickstart: nothing was repaired" >&2; exit 1; }
echo "$(repaired) chunks were rebuilt on other servers within $(seconds "${noticed:-$t}")"
kintsugi repair status
kintsugi repair history | sed -n 1,3p

say "Verifying"
kintsugi fsck /quickstart
kintsugi get /quickstart/tree "$work/repaired"
diff -r "$work/original" "$work/repaired"
echo "every byte is right, and every stripe is whole again"

# Without root fusermount3 is needed, and without /dev/fuse nothing can be mounted.
if [ "$(id -u)" -eq 0 ] && [ -w /dev/fuse ]; then
  say "Mounting it, and killing another chunkserver under a program that writes"
  mkdir "$work/mnt"
  kintsugi-mount "$work/mnt" --log-file "$work/cluster/log/mount.log"
  t=$(clock)
  cp -r "$work/original" "$work/mnt/copy" &
  copy=$!
  kill -9 "$(awk '{ print $1; exit }' "$work/cluster/run/chunkserver-7.pid")"
  wait "$copy"
  diff -r "$work/original" "$work/mnt/copy"
  echo "copied and read back through the mount in $(seconds "$t"), with a server less"
  umount "$work/mnt"
fi
