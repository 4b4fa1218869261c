#!/usr/bin/env bash
# Installs what Kintsugi builds and runs with, from Debian 12 packages. Does nothing when all of it is there.
# With --lab also what scripts/lab shapes and cuts links and draws plots with; with --check what scripts/check.sh needs.
set -euo pipefail

packages=(
  clang-19 clang-format-19 libclang-rt-19-dev llvm-19 libstdc++-12-dev mold cmake ninja-build pkg-config
  libisal-dev libboost1.81-dev libssl-dev libprotobuf-dev protobuf-compiler liburing-dev librocksdb-dev
  prometheus-cpp-dev libspdlog-dev libfmt-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev libeigen3-dev python3 python3-yaml
  python3-fsspec python3-pandas python3-build python3-setuptools python3-wheel python3-venv curl git jq xz-utils
)
# The package with promtool, which tries the alerts, starts a Prometheus at port 9090: not on every machine that builds.
[ "${1:-}" = --check ] && packages+=(clang-tidy-19 prometheus)
[ "${1:-}" = --lab ] && packages+=(python3-matplotlib iproute2 nftables)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install_deps: root is needed to install: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "Installing Debian packages: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
