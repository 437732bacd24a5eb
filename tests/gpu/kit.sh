# SPDX-License-Identifier: Apache-2.0
# How run.sh and first.sh gather a build's programs and libraries into a folder, the kit, and use them
# there; sourced. A kit has the layout of a build, so that the other scripts run on either.

# All but the C library, which every machine has as it needs it.
pack_libraries() { # kit file...
    local kit=$1 file library
    shift
    for file in "$@"; do
        ldd "$file" | awk '$3 ~ /^\// { print $3 }' |
            { grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*|libcuda|libfakecuda)\.so' || true; } |
            while read -r library; do
                cp -L "$library" "$kit/lib/"
            done
    done
}

# It is loaded where a configuration file is named, so ldd says nothing of it.
pack_libconfig() { # kit
    local name file
    name=$(grep -ao 'libconfig\.so\.[0-9]*' "$1/broker/brokerd" | head -1)
    file=$(PATH=$PATH:/sbin ldconfig -p | sed -n "s/^[[:space:]]*$name .*=> //p" | head -1)
    [ -n "$file" ] || { echo "no $name on this machine" >&2; exit 1; }
    cp -L "$file" "$1/lib/"
}

# UCX is loaded at run time: its libraries, and its modules with those for CUDA beside them.
pack_ucx() { # build kit
    local from=
    for from in "$1/../deps/ucx/lib" "$1/deps/ucx/lib" ""; do
        [ ! -e "${from:-/nowhere}/libucp.so.0" ] || break
    done
    if [ -z "$from" ]; then
        echo "no UCX with the build: the ucx link is left out" >&2
        return
    fi
    cp -L "$from"/libuc[pstm].so.0 "$2/lib/"
    mkdir -p "$2/lib/ucx"
    cp -L "$from"/ucx/*.so.0 "$2/lib/ucx/"
    # Without it UCX has no module that watches the driver, and then cannot send what lies on a GPU.
    cp -L "$from"/../../*.libs/libcudart* "$2/lib/" 2>/dev/null || true
    # ucx_perftest lies beside the libraries.
    if [ -x "$from/../bin/ucx_perftest" ]; then
        cp "$from/../bin/ucx_perftest" "$2/tools/"
        cp -L "$from"/../../*.libs/libgomp* "$2/lib/" 2>/dev/null || true
    fi
}

pack_begin() { # build kit
    rm -rf "$2"
    mkdir -p "$2/broker" "$2/tests/fakecuda" "$2/tools" "$2/lib"
    cp "$1/broker/brokerd" "$2/broker/"
    cp "$1/tests/gpu-roundtrip" "$1/tests/gpu-first" "$2/tests/"
    cp "$1/tools/broker-bench" "$1/tools/broker-ctl" "$2/tools/"
    cp -L "$1/tests/fakecuda/libfakecuda.so" "$2/tests/fakecuda/"
    # By the names that UCX looks for, and one driver for both.
    ln -s libfakecuda.so "$2/tests/fakecuda/libcuda.so.1"
    [ ! -d "$1/tests/fakecuda/nvml" ] || cp -RL "$1/tests/fakecuda/nvml" "$2/tests/fakecuda/"
    pack_ucx "$1" "$2"
}
pack_end() { # kit
    pack_libconfig "$1"
    pack_libraries "$1" "$1/broker/brokerd" "$1"/tests/gpu-* "$1/tools/broker-bench" "$1/tools/broker-ctl"
    find "$1" -type f \( -name '*.so*' -o -perm -u+x ! -name '*.sh' ! -name '*.py' \) \
        -exec strip --strip-unneeded {} + 2>/dev/null || true
}
# The kit's libraries come first, and a driver of the machine's is never among them.
use_kit() { # kit
    export LD_LIBRARY_PATH=$1/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    [ ! -d "$1/lib/ucx" ] || export UCX_MODULE_DIR=$1/lib/ucx
}
