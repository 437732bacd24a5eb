#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The images of docker/ are built and run: both Dockerfiles by buildah, from a Debian that debootstrap has
# made; the services of compose.yaml, the HEALTHCHECK and the probes of kubernetes.yaml by podman. As root, ten
# minutes on two processors, 6 GiB under $TMPDIR, all of it in namespaces of its own.
#
#   tests/system/images.sh [--base DIR] [--deps DIR] [--ccache DIR] [--carry PATH]... [--keep]
#
#   --base DIR     a root that debootstrap has made; else one is made. It stays as it is
#   --deps DIR     the wheels are taken from there (build/deps of a checkout); else pip fetches them
#   --ccache DIR   of ccache; the base gets its package
#   --carry PATH   a file or folder of this machine that the base shall have as well: what apt and pip
#                  need to reach their registries from here
#   --keep         leave the folder
# $AMB_DEBIAN: the URL of a mirror. $AMB_CARRY: more of --carry, with colons between them.
# Exit: 0 all of it works, 1 something does not, 64 usage, 77 skipped: not root, a tool is not there, or apt and pip
# reach no registry.
set -euo pipefail

usage() {
    sed -n 's/^#   \(tests.*\)/usage: \1/p' "$0" >&2
    exit 64
}
base='' deps='' ccache='' keep='' carry=()
while [ $# -gt 0 ]; do
    case $1 in
    --base) base=${2:?} && shift ;;
    --deps) deps=${2:?} && shift ;;
    --ccache) ccache=${2:?} && shift ;;
    --carry) carry+=("${2:?}") && shift ;;
    --keep) keep=1 ;;
    *) usage ;;
    esac
    shift
done
IFS=: read -r -a more <<<"${AMB_CARRY:-}"
carry+=(${more[@]+"${more[@]}"})
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
docker=$sources/docker

say() { printf 'images: %s\n' "$*"; }
fail() {
    say "$*" >&2
    exit 1
}

# no_registry: whether $folder/log says that one cannot be reached; that is no fault of ours.
no_registry() {
    tail -n 40 "$folder/log" >&2
    if grep -q -E 'CERTIFICATE_VERIFY_FAILED|Could not resolve|Unable to connect|Failed getting release file|Connection failed' \
        "$folder/log"; then
        say 'skipped: apt or pip reaches no registry (--carry, $AMB_CARRY, $AMB_DEBIAN)'
        exit 77
    fi
}

# ---- outside: a folder, a base ----

outside() {
    [ "$(id -u)" = 0 ] || { say 'skipped: needs root' && exit 77; }
    local tool
    for tool in buildah podman debootstrap unshare; do
        command -v "$tool" >/dev/null || { say "skipped: no $tool here" && exit 77; }
    done
    python3 -c 'import yaml' 2>/dev/null || { say 'skipped: no package python3-yaml here' && exit 77; }
    folder=$(mktemp -d "${TMPDIR:-/tmp}/amb-images-XXXXXX")
    # Whatever is mounted there, and runs there, ends with the namespaces, before this.
    clean_up() {
        if [ -n "$keep" ]; then
            say "left $folder"
        else
            rm -rf --one-file-system "$folder"
        fi
    }
    trap clean_up EXIT
    mkdir "$folder/context" "$folder/tmp" "$folder/storage" "$folder/run"
    if [ -z "$base" ]; then
        base=$folder/root
        debootstrap --variant=minbase ${ccache:+--include=ccache} bookworm "$base" \
            "${AMB_DEBIAN:-http://deb.debian.org/debian}" >"$folder/log" 2>&1 ||
            { no_registry && fail 'debootstrap'; }
    fi
    tar -C "$base" --one-file-system -cf "$folder/context/base.tar" .
    local path
    for path in ${carry[@]+"${carry[@]}"}; do
        tar -C / -rhf "$folder/context/base.tar" ".$path"
    done
    [ "$base" != "$folder/root" ] || rm -rf --one-file-system "$base"
    if [ -n "$deps" ]; then
        cp -a "$deps" "$folder/deps"
    fi
    if [ -n "$ccache" ]; then
        mkdir -p "$ccache"
    fi
    say "the base is there after $SECONDS s"
    AMB_IMAGES_INSIDE=$folder AMB_IMAGES_DEPS=$deps AMB_IMAGES_CCACHE=$ccache unshare --mount --pid --fork \
        --kill-child --mount-proc --ipc --uts --propagation private "${BASH_SOURCE[0]}"
    say "all of it works, $SECONDS s"
}

# ---- inside: of these mounts and processes nobody else sees anything ----

build() {
    local options=(--format docker --build-arg "JOBS=${AMB_JOBS:-$(nproc)}") tag
    printf 'FROM scratch\nADD base.tar /\n' >"$folder/context/Dockerfile"
    quietly base buildah bud --format docker -t base "$folder/context"
    if [ -n "${AMB_IMAGES_DEPS:-}" ]; then
        options+=(-v "$folder/deps:/src/build/deps")
    fi
    if [ -n "${AMB_IMAGES_CCACHE:-}" ]; then
        options+=(-v "$AMB_IMAGES_CCACHE:/root/.cache/ccache"
            --build-arg CMAKE_OPTIONS=-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    quietly Dockerfile buildah bud "${options[@]}" --build-arg BASE=localhost/base -f "$docker/Dockerfile" \
        -t ambroker "$sources"
    quietly cuda.Dockerfile buildah bud --format docker --build-arg BASE=localhost/ambroker \
        -f "$docker/cuda.Dockerfile" -t ambroker-cuda "$sources"
    for tag in ambroker ambroker-cuda; do
        say "$tag: $(podman image inspect --format '{{.Size}}' "localhost/$tag") bytes"
    done
}

# quietly NAME COMMAND...: its output only if it fails.
quietly() {
    local name=$1
    shift
    if ! "$@" >"$folder/log" 2>&1 </dev/null; then
        no_registry
        fail "$name: $*"
    fi
    say "$name is built, $SECONDS s"
}

# inspect IMAGE FIELD
inspect() { podman image inspect --format "$2" "localhost/$1"; }

# Without systemd podman has no timers for health checks, and says so each time.
podman() { command podman --log-level fatal "$@"; }

# is NAME GOT WANTED
is() { [ "$2" = "$3" ] || fail "$1 is '$2', and not '$3'"; }

look_at_images() {
    local version
    version=$(sed -n 's/^project(ambroker VERSION \([0-9.]*\).*/\1/p' "$sources/CMakeLists.txt")
    is 'the user' "$(inspect ambroker '{{.Config.User}}')" 4733:4733
    is 'the label of the version' \
        "$(inspect ambroker '{{index .Config.Labels "org.opencontainers.image.version"}}')" "$version"
    inspect ambroker '{{json .Config.ExposedPorts}}' | grep -q '"4733/tcp".*"9464/tcp"' || fail 'ports'
    inspect ambroker '{{json .HealthCheck}}' | grep -q 'broker-ctl check ready' || fail 'no HEALTHCHECK'
    inspect ambroker-cuda '{{json .Config.Env}}' | grep -q 'NVIDIA_DRIVER_CAPABILITIES=compute,utility' ||
        fail 'the variables of NVIDIA'
    inspect ambroker-cuda '{{json .HealthCheck}}' | grep -q 'broker-ctl check ready' || fail 'no HEALTHCHECK in CUDA'
    # One version in all of them; a broker for GPUs starts where there is none.
    local image
    for image in ambroker ambroker-cuda; do
        run "$image" --version | grep -F "$version" >/dev/null || fail "$image: --version"
        run --entrypoint broker-ctl "$image" version | grep -F "$version" >/dev/null || fail "$image: broker-ctl"
    done
}

# run OPTIONS... IMAGE ARGUMENTS...
run() { podman run --rm --no-healthcheck --network none --cgroups=disabled --pull never "$@"; }

# service NAME OPTIONS...: starts that of compose.yaml.
service() {
    local name=$1 arguments
    shift
    readarray -d '' -t arguments < <("$sources/tests/system/compose_run.py" "$docker/compose.yaml" "$name")
    [ ${#arguments[@]} != 0 ] || fail "compose.yaml: $name"
    podman run --name "$name" --pull never "$@" "${arguments[@]}"
}

# until_true SECONDS TEXT COMMAND...
until_true() {
    local end=$((SECONDS + $1)) text=$2
    shift 2
    until "$@"; do
        if [ "$SECONDS" -ge "$end" ]; then
            podman ps --all --quiet | while read -r container; do
                podman inspect --format '{{.Name}} {{json .State}}' "$container"
                podman logs "$container"
            done >&2
            fail "not in time: $text"
        fi
        sleep 0.2
    done
}

healthy() { podman healthcheck run "$1" >/dev/null 2>&1; }
health() { podman inspect --format '{{.State.Health.Status}}' "$1"; }

# Each try is one that a manager would make every 5 s by HEALTHCHECK.
health_is() {
    healthy "$1" || true
    [ "$(health "$1")" = "$2" ]
}

compose() {
    local code
    service keys >"$folder/log" 2>&1 || { cat "$folder/log" && fail 'keys of compose.yaml'; }
    podman rm keys >/dev/null
    service keys >"$folder/log" 2>&1 || fail 'keys, where they are there'
    service broker --detach >/dev/null
    until_true 60 'the broker is healthy' health_is broker healthy
    code=0
    service client >"$folder/client" 2>&1 || code=$?
    cat "$folder/client"
    [ "$code" = 0 ] || { podman logs broker && fail "the client of compose.yaml ends with $code"; }
    [ "$(grep -c '^messages  *1000$' "$folder/client")" = 2 ] || fail 'the client has not moved 1000 messages'
    say 'compose.yaml: keys, broker and client'
    # The command of the file's head.
    podman exec broker broker-ctl status >"$folder/log" || fail 'broker-ctl status'
}

healthcheck() {
    # The process stands: it is there, and does not answer.
    podman kill --signal STOP broker >/dev/null
    until_true 90 'unhealthy, as the broker stands' health_is broker unhealthy
    podman kill --signal CONT broker >/dev/null
    until_true 60 'healthy, as the broker goes on' health_is broker healthy
    say 'HEALTHCHECK: unhealthy where the broker stands, healthy where it goes on'
    podman stop broker >/dev/null
    is 'the exit code of a broker that was stopped' "$(podman inspect --format '{{.State.ExitCode}}' broker)" 0
    ! healthy broker || fail 'healthy, without a broker'
}

# get PATH: the status that a probe gets, as the kubelet asks.
get() {
    python3 - "$1" <<'PY'
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(f"http://127.0.0.1:9464{sys.argv[1]}", timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    print("none")
PY
}
gets() { [ "$(get "$1")" = "$2" ]; }

# What the pod of kubernetes.yaml shares and may not, by two containers, and its probes. All but the PID namespace,
# which podman shares only where there are control groups.
pod() {
    local strict=(--network host --cgroups=disabled --pull never --read-only --cap-drop all
        --security-opt no-new-privileges --user 4733:4733 --volume pod-run:/run/ambroker)
    mkdir "$folder/config"
    python3 - "$docker/kubernetes.yaml" >"$folder/config/broker.conf" <<'PY'
import sys, yaml
parts = {part["kind"]: part for part in yaml.safe_load_all(open(sys.argv[1], encoding="utf-8"))}
print(parts["ConfigMap"]["data"]["broker.conf"])
PY
    podman volume create --opt type=tmpfs --opt device=tmpfs --opt o=uid=4733,gid=4733 pod-run >/dev/null
    podman run --detach --name pod-broker --ipc host --volume "$folder/config:/etc/ambroker:ro" "${strict[@]}" \
        localhost/ambroker >/dev/null
    until_true 60 '/readyz is 200' gets /readyz 200
    is '/healthz' "$(get /healthz)" 200
    is 'a view, without a key' "$(get /v1/topics)" 403
    until_true 60 'the broker of the pod is healthy' health_is pod-broker healthy
    # Host memory comes in place, in a shared IPC namespace and in others: it is passed through the socket.
    local shared
    for shared in '--ipc host' ''; do
        # shellcheck disable=SC2086 # words
        podman run --rm $shared "${strict[@]}" --entrypoint /bin/sh localhost/ambroker -euc '
            broker-ctl sub demo.pod --count 20 --timeout 60 -o jsonl --payload-max 1 &
            broker-ctl pub demo.pod --count 20 --size 1M --wait-subscribers 1 --timeout 60
            wait $!' >"$folder/log" || fail 'the client of the pod'
        is "messages that were mapped (${shared:-no shared namespaces})" \
            "$(grep -c '"path": *"mapped"' "$folder/log")" 20
    done
    # Its counters are in the memory of that volume.
    podman exec pod-broker broker-ctl --file /run/ambroker/broker.sock.counters status >/dev/null 2>&1 ||
        fail 'no file of counters'
    podman stop pod-broker >/dev/null
    is '/readyz, of no broker' "$(get /readyz)" none
    say 'the containers of the pod, and its probes'
    podman kube play --start=false "$docker/kubernetes.yaml" >"$folder/log" 2>&1 ||
        { cat "$folder/log" && fail 'podman kube play'; }
    local name
    name=$(podman pod ls --format '{{.Name}}')
    podman pod inspect "$name" >"$folder/log"
    python3 - "$folder/log" <<'PY' || fail 'the pod does not share its namespaces'
import json, sys
pod = json.load(open(sys.argv[1], encoding="utf-8"))
assert {"ipc", "pid"} <= set(pod["SharedNamespaces"]), pod["SharedNamespaces"]
assert {row["Name"].rsplit("-", 1)[1] for row in pod["Containers"]} == {"infra", "broker", "client"}
PY
    say 'podman takes kubernetes.yaml'
}

inside() {
    folder=$AMB_IMAGES_INSIDE
    export TMPDIR=$folder/tmp HOME=$folder/tmp BUILDAH_ISOLATION=chroot
    export CONTAINERS_STORAGE_CONF=$folder/storage.conf
    printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$folder/storage" "$folder/run" \
        >"$CONTAINERS_STORAGE_CONF"
    # The infra container of a pod: podman would build an image for it.
    export CONTAINERS_CONF=$folder/containers.conf
    printf '[engine]\ninfra_image = "localhost/ambroker"\n' >"$CONTAINERS_CONF"
    # What these tools keep beside their storage.
    cp -L /etc/resolv.conf "$folder/resolv.conf"
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /var/lib # a cache of root's, which no setting moves
    [ -e /etc/resolv.conf ] || install -D "$folder/resolv.conf" "$(readlink -m /etc/resolv.conf)"
    if [ -n "${AMB_IMAGES_NETLESS:-}" ]; then
        ip link set lo up
        look_at_images
        compose
        healthcheck
        pod
        exit 0
    fi
    build
    # One hierarchy of control groups: runtimes take no mixture.
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    AMB_IMAGES_NETLESS=1 unshare --net --mount --propagation private "${BASH_SOURCE[0]}"
}

if [ -n "${AMB_IMAGES_INSIDE:-}" ]; then
    inside
else
    outside
fi
