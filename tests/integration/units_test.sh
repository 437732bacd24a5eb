#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The systemd units: systemd takes each of their lines, the one for GPUs keeps no device away and is
# else as strict as the other, and docs/gpu.md has each option that would.
#   tests/integration/units_test.sh BROKERD SOURCE_FOLDER
set -euo pipefail
brokerd=$1
source=$2
if ! command -v systemd-analyze >/dev/null; then
    echo "skipped: no systemd-analyze"
    exit 77
fi
dir=$(mktemp -d /tmp/amb-units-XXXXXX)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
plain=$source/etc/ambroker.service
gpu=$source/etc/ambroker-gpu.service

# With programs that are there. systemd only warns of what it does not know, so nothing may be said.
verify() { # UNIT
    sed "s|/usr/bin/brokerd|$brokerd|; s|/usr/bin/nvidia-modprobe|/bin/true|" "$1" >"$dir/${1##*/}"
    systemd-analyze verify --man=no "$dir/${1##*/}" >"$dir/said" 2>&1 && [ ! -s "$dir/said" ]
}
for unit in "$plain" "$gpu"; do
    verify "$unit" || fail "$unit: $(cat "$dir/said")"
done
sed 's/^LockPersonality=/LockPersonalty=/' "$gpu" >"$dir/wrong.service"
! verify "$dir/wrong.service" || fail "a line that systemd does not know is not seen"

# The options that keep devices, or the memory behind them, away.
away='PrivateDevices DeviceAllow DevicePolicy ProtectClock PrivateTmp PrivateIPC PrivateUsers ProcSubset
    MemoryDenyWriteExecute'
for option in $away NoNewPrivileges; do
    grep -q "\`$option" "$source/docs/gpu.md" || fail "docs/gpu.md does not explain $option"
done
for option in $away; do
    ! grep "^$option=" "$gpu" || fail "the unit for GPUs has $option"
done
for option in PrivateDevices DeviceAllow DevicePolicy ProtectClock; do
    ! grep "^$option=" "$plain" || fail "InfiniBand: the plain unit has $option"
done
grep -q '^After=.*nvidia-fabricmanager.service' "$gpu" || fail "not after the fabric manager"
# A fabric manager that is late, or a full GPU, must not end the tries.
grep -q '^StartLimitIntervalSec=0$' "$gpu" || fail "it gives up"
grep -q '^RestartSec=[1-9]' "$gpu" || fail "it tries in a rush"

# The devices, by the rules of nvidia-modprobe: with -u each -c is a number of nvidia-uvm, else of a GPU.
devices() { # ARGUMENTS
    local what=nvidia number
    [[ " $* " != *" -u "* ]] || what=nvidia-uvm
    while [ $# -gt 0 ]; do
        if [ "$1" = -c ]; then
            shift
            number=$1
            case $what:$number in
                nvidia:255) echo nvidiactl ;;
                nvidia:*) echo "nvidia$number" ;;
                nvidia-uvm:0) echo nvidia-uvm ;;
                *) echo "nvidia-uvm under the wrong number $number" ;;
            esac
        fi
        shift
    done
}
made=$(while read -r line; do
    # shellcheck disable=SC2086
    devices $line
done < <(sed -n 's|^ExecStartPre=-+/usr/bin/nvidia-modprobe||p' "$gpu") | sort | tr '\n' ' ')
[ "$made" = "nvidia0 nvidiactl nvidia-uvm " ] || [ "$made" = "nvidia-uvm nvidia0 nvidiactl " ] ||
    fail "nvidia-modprobe makes: $made"

# Else the two are the same.
while read -r line; do
    grep -qxF -- "$line" "$gpu" || fail "only the plain unit has: $line"
done < <(sed -n '/^\[Service\]/,$p' "$plain" | grep -v '^#\|^$\|^PrivateTmp=')
echo "ok"
