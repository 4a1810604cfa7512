# Functions of the scripts that run under systemd, beside functions.sh.
# shellcheck disable=SC2034 # other scripts use them
unit=gabion-kms.service
state=/var/lib/gabion-kms
cd /tmp

# check NAME COMMANDS  runs shell commands, all of which have to succeed.
check() {
    (set -e; eval "$2") >/tmp/log 2>&1
    # Not as a condition, within which `set -e` has no effect.
    if [ $? -eq 0 ]; then # shellcheck disable=SC2181
        echo "ok $1"
    else
        echo "FAILED $1"
        { tail -n 12 /tmp/log; journalctl --no-pager --unit gabion-kms --lines 8 2>/dev/null; } | sed 's/^/    /'
    fi
}
property() { systemctl show --property "$1" --value $unit; }
is() { test "$(property "$1")" = "$2" || { property "$1"; return 1; }; }
install_version() { dpkg -i --force-confdef --force-confold "$1"/gabion_*.deb "$1"/gabion-kms_*.deb; }
of_process() { grep -Eq "$2" "/proc/$pid/$1" || { grep -E "^${2%%[: ]*}" "/proc/$pid/$1"; return 1; }; }
serves() { gabion kms status --json >/tmp/status || return 1; [ -n "$may_not_lock" ] || lacks memory_not_locked /tmp/status; }
serves_soon() { for _ in 1 2 3 4 5 6 7 8 9 10; do ! serves || return 0; sleep 0.5; done; cat /tmp/status; return 1; }
remember() { pid=$(property MainPID); }
HOME=/root
export HOME

# Without CAP_SYS_RESOURCE, as in some virtual machines, systemd cannot raise the limit of locked memory.
may_not_lock=
(ulimit -l unlimited) 2>/dev/null || may_not_lock=1

# allow_unlocked  has the server start where the unit's LimitMEMLOCK has no effect.
allow_unlocked() {
    [ -n "$may_not_lock" ] || return 0
    echo "skipped: locked memory under systemd: this machine may not raise RLIMIT_MEMLOCK"
    printf '[memory]\nallow_unlocked = true\n' >>/etc/gabion/kms.toml
}
