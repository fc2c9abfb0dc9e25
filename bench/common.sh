# What the benches share: a namespace of their own, a load of their own, medians.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
TCPWHY=$PWD/target/release/tcpwhy
[ -x "$TCPWHY" ] || { echo "bench: build first: make build" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo "bench: needs root: sudo $0" >&2; exit 1; }
DIR=$(mktemp -d)
NS=tcpwhy-bench-$$
pids=()

cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns del "$NS" 2>/dev/null || true
    rm -rf "$DIR"
}
trap cleanup EXIT
ip netns add "$NS"
ip -n "$NS" link set lo up

# median FILE: the median of a file of numbers
median() { sort -g "$1" | awk '{v[NR]=$1} END {print (NR%2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }

# busy: CPU time of the whole host so far, in hundredths of a second, idle and iowait left out
busy() { awk '$1=="cpu" {print $2+$3+$4+$7+$8; exit}' /proc/stat; }

# serve NAME PORT [ARGS...]: a server in the namespace, ready when this returns
serve() {
    local name=$1 port=$2
    shift 2
    "$TCPWHY" lab-workload server --name "$name" --netns "$NS" --listen "0.0.0.0:$port" "$@" \
        >"$DIR/$name.out" &
    pids+=($!)
    until grep -qs ready "$DIR/$name.out"; do sleep 0.02; done
}

# load ADDRESS:PORT ARGS...: a client in the namespace; prints its report
load() {
    local to=$1
    shift
    "$TCPWHY" lab-workload client --netns "$NS" --connect "$to" "$@"
}
