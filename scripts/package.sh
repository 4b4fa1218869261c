#!/usr/bin/env bash
# Builds the Debian packages, into build/packages, and has lintian look at them where it is installed. What is needed to build
# is installed when this is root. A second run compiles only what changed. Compilers are launched by CMAKE_CXX_COMPILER_LAUNCHER
# (ccache, say), and DEB_BUILD_OPTIONS=parallel=N says how many at a time. While debian/changelog says UNRELEASED, the version
# ends in the time of the commit and its name, 0.2.0~git20261130071300.c6faf922aaaa.
set -euo pipefail
cd "$(dirname "$0")/.."
# Debian's Python builds the package for Debian's Python, whatever else is installed.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

seconds=
commit=${KINTSUGI_COMMIT:-$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || true)}
version=$(dpkg-parsechangelog -SVersion)
# apt does nothing when the version is installed already, whatever the package has. What is not committed is as old as now.
if [ -n "$commit" ] && [ "$(dpkg-parsechangelog -SDistribution)" = UNRELEASED ]; then
  seconds=$(git log -1 --format=%ct 2>/dev/null || date +%s)
  case $commit in *-dirty) seconds=$(date +%s) ;; esac
  version="$version~git$(date -u -d "@$seconds" +%Y%m%d%H%M%S).$(printf %s "$commit" | tr -c 'A-Za-z0-9' .)"
fi
packages=$(awk '$1 == "Source:" || $1 == "Package:" { print $2 }' debian/control)
missing=$(mktemp)
changelog=$(mktemp)
cp debian/changelog "$changelog"

# dpkg-buildpackage leaves what it makes beside the source's directory. What is still there at the end was not wanted any more: a
# step failed, or somebody interrupted this.
clean_up() {
  cmp -s "$changelog" debian/changelog || cat "$changelog" >debian/changelog
  rm -f "$missing" "$changelog"
  for package in $packages; do
    rm -f "../${package}_${version}"_*.{deb,changes,buildinfo} "../${package}-dbgsym_${version}"_*.deb
  done
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if ! dpkg-checkbuilddeps 2>"$missing"; then
  if [ "$(id -u)" -ne 0 ]; then
    cat "$missing" >&2
    echo "package: install them with: apt-get build-dep ./" >&2
    exit 1
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get build-dep -y -qq --no-install-recommends ./ >/dev/null
fi

# Flags of whoever builds come after Debian's; dpkg-buildflags would not add its own to variables that are set.
export DEB_CFLAGS_APPEND="${CFLAGS:-}" DEB_CXXFLAGS_APPEND="${CXXFLAGS:-}"
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS
export KINTSUGI_COMMIT=$commit

if [ -n "$seconds" ]; then
  {
    printf '%s (%s) UNRELEASED; urgency=medium\n\n' "$(dpkg-parsechangelog -l "$changelog" -SSource)" "$version"
    printf '  * Commit %s.\n\n' "$commit"
    printf ' -- %s  %s\n\n' "$(dpkg-parsechangelog -l "$changelog" -SMaintainer)" "$(date -R -u -d "@$seconds")"
    cat "$changelog"
  } >debian/changelog
fi

# What an earlier run left but for compiled objects.
dh_clean
rm -rf .pybuild
dpkg-buildpackage -b -us -uc -nc "$@"

changes=../kintsugi_${version}_$(dpkg --print-architecture).changes
mkdir -p build/packages
rm -f build/packages/*
for file in $(awk '/^Files:/ { listed = 1; next } /^[^ ]/ { listed = 0 } listed { print $5 }' "$changes"); do
  mv "../$file" build/packages/
done
mv "$changes" build/packages/
ls -l build/packages
if command -v lintian >/dev/null; then
  lintian --fail-on error,warning build/packages/*.changes
else
  echo "package: lintian is not installed, so nobody has looked at the packages"
fi
