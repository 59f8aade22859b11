#!/usr/bin/env bash
# Has the suite flakes? Three clones of HEAD run `make test` at the same time, which is three times the load.
#
#   tests/at_once.sh [PYTEST_ARGS=…]      # words for make test; TIMES=3 in the environment: so many clones
#
# Each clone replaces this folder in its own mount namespace, with separate processes, network, cgroups,
# /tmp, /run and package state, so none affects another's Slurm, hub, users or locks. Needs root, overlayfs
# and the result of `make setup-test`. The output of each is kept in the file named at the end, and all
# files of a failed one; the exit status is 0 if all passed.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Over folder $2 at path $3 a layer that takes what is written; it is kept in folder $1.
layer() {
    mkdir -p "$1/written" "$1/work"
    mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/written,workdir=$1/work" "$3"
}

# `make test WORD…` in the clone of folder $1, in namespaces that are new.
alone() {
    local folder=$1 name
    shift
    mount --make-rprivate /
    for name in etc home root var/lib var/log; do
        layer "$folder/layers/$name" "/$name" "/$name"
    done
    for name in memory freezer pids cpuacct devices; do  # cgroup v1, where Slurm names its groups by its nodes
        if mkdir "/sys/fs/cgroup/$name/${folder##*/}" 2> /dev/null; then
            mount --bind "/sys/fs/cgroup/$name/${folder##*/}" "/sys/fs/cgroup/$name"
        fi
    done
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /dev/shm
    mount --bind "$folder/tmp" /tmp
    layer "$folder/layers/venv" "$project/.venv" "$folder/clone/.venv"
    mount --rbind "$folder/clone" "$project"
    ip link set lo up
    ip link add to type veth peer name nobody  # with only lo, Slurm resolves no names, not even localhost
    ip address add 192.0.2.1/24 dev to
    ip link set to up
    cd "$project"
    exec make test "$@"
}

if [ "${1-}" = --alone ]; then
    alone "${@:2}"
fi
case ${1-} in -h | --help)
    sed -n '2,9s/^# \{0,1\}//p' "$project/tests/at_once.sh"
    exit
    ;;
esac
[ "$(id -u)" = 0 ] || { echo "at_once.sh makes namespaces and mounts: run it as root" >&2; exit 2; }
[ -d "$project/.venv" ] || { echo "there is no $project/.venv: run make setup-test first" >&2; exit 2; }
top=$(mktemp -d /var/tmp/at-once-XXXXXX)
chmod 755 "$top"
clones=() runs=()
# Interrupted: end the namespaces, and with each all that runs in it (unshare itself ignores gentler signals).
trap 'kill -KILL "${runs[@]}" 2> /dev/null; wait; exit 130' INT TERM
trap 'find /sys/fs/cgroup/*/"${top##*-}"-* -depth -type d -exec rmdir {} + 2> /dev/null || true' EXIT
for number in $(seq "${TIMES:-3}"); do
    folder=$top/${top##*-}-$number
    mkdir -p "$folder"
    mkdir -m 1777 "$folder/tmp"
    git clone --quiet "$project" "$folder/clone"
    mkdir "$folder/clone/.venv"
    clones+=("$folder")
done
for folder in "${clones[@]}"; do
    unshare --mount --pid --net --ipc --uts --fork --kill-child --mount-proc \
        bash "$project/tests/at_once.sh" --alone "$folder" "$@" > "$folder/output" 2>&1 &
    runs+=($!)
done
failed=0
for i in "${!runs[@]}"; do
    if wait "${runs[i]}"; then
        rm -rf "${clones[i]}"/{clone,layers,tmp}
    else
        failed=1
    fi
    echo "${clones[i]}/output: $(tail -n 1 "${clones[i]}/output")"
done
exit "$failed"
