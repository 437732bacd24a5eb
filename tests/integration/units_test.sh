#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The systemd units: systemd takes each of their lines, the plain one exposes little, the one for GPUs
# and InfiniBand keeps no device away and is else as strict, and docs/gpu.md has each option that would.
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
fence=$source/etc/ambroker-fence.service

# With programs that are there. systemd only warns of what it does not know, so nothing may be said.
verify() { # UNIT
    sed "s|/usr/bin/brokerd|$brokerd|; s|/usr/bin/broker-ctl|/bin/true|; s|/usr/bin/nvidia-modprobe|/bin/true|
        s|/usr/bin/ucx-fence|$source/tools/ucx-fence|" "$1" >"$dir/${1##*/}"
    systemd-analyze verify --man=no "$dir/${1##*/}" >"$dir/said" 2>&1 && [ ! -s "$dir/said" ]
}
for unit in "$plain" "$gpu" "$fence"; do
    verify "$unit" || fail "$unit: $(cat "$dir/said")"
done
sed 's/^LockPersonality=/LockPersonalty=/' "$gpu" >"$dir/wrong.service"
! verify "$dir/wrong.service" || fail "a line that systemd does not know is not seen"

# By systemd's own count of what is left open: 10 is a service without any of it.
exposure() { # UNIT
    systemd-analyze --offline=true --no-pager security "$1" 2>"$dir/said" |
        sed -nE 's/^.*exposure level for .*: ([0-9.]+) .*$/\1/p'
}
is_at_most() { # NUMBER LIMIT
    [ -n "$1" ] && awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'
}
if systemd-analyze --help | grep -q -- --offline; then
    is_at_most "$(exposure "$plain")" 2.5 || fail "the plain unit: $(exposure "$plain") $(cat "$dir/said")"
    is_at_most "$(exposure "$gpu")" 3.5 || fail "the unit for GPUs: $(exposure "$gpu") $(cat "$dir/said")"
    is_at_most "$(exposure "$fence")" 2.5 || fail "the fence: $(exposure "$fence") $(cat "$dir/said")"
    sed '/^SystemCallFilter=/d; /^CapabilityBoundingSet=/d' "$plain" >"$dir/open.service"
    ! is_at_most "$(exposure "$dir/open.service")" 2.5 || fail "a unit that leaves more open is not seen"
fi

# The options that keep devices, or the memory behind them, away.
away='PrivateDevices DeviceAllow DevicePolicy ProtectClock PrivateTmp PrivateIPC PrivateUsers ProcSubset
    MemoryDenyWriteExecute SystemCallFilter'
for option in $away NoNewPrivileges; do
    grep -q "\`$option" "$source/docs/gpu.md" || fail "docs/gpu.md does not explain $option"
done
for option in $away; do
    ! grep "^$option=" "$gpu" || fail "the unit for GPUs has $option"
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

# Both tell systemd when they are ready, are watched, and have a reload that can fail.
for unit in "$plain" "$gpu"; do
    for line in Type=notify WatchdogSec=30 NotifyAccess=main; do
        grep -qx "$line" "$unit" || fail "$unit has no $line"
    done
    grep -q '^ExecReload=/usr/bin/broker-ctl .* config reload$' "$unit" || fail "$unit: reload"
done

# Else the two are the same.
while read -r line; do
    grep -qxF -- "$line" "$gpu" || fail "only the plain unit has: $line"
done < <(sed -n '/^\[Service\]/,$p' "$plain" | grep -v '^#\|^$' |
    grep -vE "^($(tr -s ' \n' '|' <<<"$away")SystemCallErrorNumber|Environment)=")
echo "ok"
