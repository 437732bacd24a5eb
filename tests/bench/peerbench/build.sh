#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# build.sh HARNESS BUILD OUT [--only]
#
# Copies the peerbench sources at HARNESS to OUT, adds Ambroker as a backend, links libamb of the
# build folder BUILD and leaves OUT/peerbench. Peers whose headers are missing here are left out
# with a word; --only leaves all of them out. OUT is made, or refreshed if it is such a copy.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../../.." && pwd)
usage() { echo "usage: build.sh HARNESS BUILD OUT [--only]" >&2; exit 64; }
[ $# -ge 3 ] || usage
harness=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
only=${4:-}
[ -z "$only" ] || [ "$only" = --only ] || usage
mkdir -p "$3"
out=$(cd "$3" && pwd)

die() { echo "build.sh: $*" >&2; exit 1; }
[ -f "$harness/peerbench.c" ] && [ -f "$harness/peerbench.h" ] || die "$harness: no peerbench there"
[ "$out" != "$harness" ] || die "OUT is HARNESS: it would be changed"
[ -e "$build/client/libamb.so" ] || die "$build: no client/libamb.so there; build it first"
[ -x "$build/broker/brokerd" ] || die "$build: no broker/brokerd there; build it first"
[ -x "$build/tools/broker-ctl" ] || die "$build: no tools/broker-ctl there; build it first"
[ -z "$(ls -A "$out")" ] || [ -f "$out/peerbench.c" ] || die "$out: neither empty nor such a copy"

# Sources only: what was built there belongs to that place.
for file in "$harness"/*; do
    if [ -f "$file" ] && ! cmp -s -n 4 "$file" /bin/true; then
        cp "$file" "$out/"
    fi
done
cp "$here/backend_ambroker.c" "$here"/tls*.c "$out/"
# main is tls.c's, which knows --tls.
sed -i 's/^int main(/int peerbench_main(/' "$out/peerbench.c"

# A peer that cannot be built here: its header, the backends of its file, its library.
cd "$out"
CC=${CC:-cc}
leave_out() { # FILE LIBRARY
    local file=$1 library=$2 name
    for name in $(sed -n 's/^const struct pb_backend \(pb_[a-z_]*\) *=.*/\1/p' "$file"); do
        sed -i "/^BACKEND($name)\$/d" backends.def
    done
    sed -i -e "s/\\b$file\\b//" -e "s/ -l$library\\b//" Makefile
}
# Its backend over TLS: a file of ours, of which the plain one is a part, or beside which it stands.
add_tls() { # NAME
    local name=$1
    grep -q "^BACKEND(pb_${name}_tls)\$" backends.def || echo "BACKEND(pb_${name}_tls)" >>backends.def
    case $name in
        redis) sed -i "s/\\bbackend_redis\\.c\\b/& tls_redis.c/" Makefile ;;
        *) sed -i "s/\\bbackend_$name\\.c\\b/tls_$name.c/" Makefile ;;
    esac
}
while read -r file header library; do
    [ -f "$file" ] || continue
    if [ "$only" = --only ]; then
        leave_out "$file" "$library"
    elif ! echo "#include <$header>" | $CC -E -x c - -o /dev/null 2>/dev/null; then
        echo "build.sh: without $file: no <$header> here" >&2
        leave_out "$file" "$library"
    elif [ -f "tls_${file#backend_}" ]; then
        name=${file#backend_}
        add_tls "${name%.c}"
    fi
done <<'PEERS'
backend_nats.c nats/nats.h nats
backend_redis.c hiredis/hiredis.h hiredis
backend_mosquitto.c mosquitto.h mosquitto
backend_zmq.c zmq.h zmq
backend_nng.c nng/nng.h nng
PEERS
if [ "$only" = --only ]; then
    # iceoryx is found by the Makefile itself.
    sed -i 's|^IOX := .*|IOX :=|' Makefile
fi

lease=
if grep -q '\bamb_lease_commit(' "$source/client/include/amb/amb.h"; then
    lease=-DHAVE_AMB_LEASE
fi
for name in ambroker ambroker_lease ambroker_tcp ambroker_tls ambroker_ucx; do
    grep -q "^BACKEND(pb_$name)\$" backends.def || echo "BACKEND(pb_$name)" >>backends.def
done
# Above the first rule, where the variables it uses are read.
awk -v source="$source" -v build="$build" -v lease="$lease" '
    /^all:/ && !done {
        print "BACKENDS += backend_ambroker.c tls.c"
        print "CPPFLAGS += -I. -I" source " -I" source "/client/include -DAMB_BROKERD=\\\"" build \
            "/broker/brokerd\\\" -DAMB_BROKER_CTL=\\\"" build "/tools/broker-ctl\\\" " lease
        print "LDLIBS   += -L" build "/client -Wl,-rpath," build "/client -lamb -lssl -lcrypto\n"
        done = 1
    }
    { print }' Makefile >Makefile.new
mv Makefile.new Makefile
make -s CC="$CC" peerbench
echo "$out/peerbench"
