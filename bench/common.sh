# What the benches share: a namespace of their own, a load of their own, medians.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
TCPWHY=${TCPWHY:-$PWD/dist/tcpwhy}
LAB=$PWD/dist/tcpwhy-lab
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
    "$LAB" lab-workload server --name "$name" --netns "$NS" --listen "0.0.0.0:$port" "$@" \
        >"$DIR/$name.out" &
    pids+=($!)
    until grep -qs ready "$DIR/$name.out"; do sleep 0.02; done
}

# load ADDRESS:PORT ARGS...: a client in the namespace; prints its report
load() {
    local to=$1
    shift
    "$LAB" lab-workload client --netns "$NS" --connect "$to" "$@"
}

# Three destinations: the ports to one are in TIME_WAIT before the CPUs are busy.
ADDRESSES="127.0.1.1 127.0.1.2 127.0.1.3"

# nginx_serves: nginx in the namespace; the answers are of a size that is usual for an API
nginx_serves() {
    local www=$DIR/www
    mkdir "$www"
    # Its worker gives up root.
    chmod 755 "$DIR" "$www"
    head -c 600 /dev/zero | tr '\0' x >"$www/index.html"
    cat >"$DIR/nginx.conf" <<END
daemon off;
pid $DIR/nginx.pid;
error_log $DIR/nginx.log;
events { worker_connections 1024; }
http {
    access_log off;
    server { listen 7100 backlog=1024; root $www; }
}
END
    ip netns exec "$NS" nginx -c "$DIR/nginx.conf" 2>/dev/null &
    pids+=($!)
    until [ -s "$DIR/nginx.pid" ]; do sleep 0.02; done
}

# wrk_load ADDRESS SECONDS: wrk loads nginx, a connection a request; prints how many were answered
wrk_load() {
    ip netns exec "$NS" wrk -t1 -c17 -d"$2s" -H 'Connection: close' "http://$1:7100/" |
        awk '/requests in/ {print $1}'
}

# big NAME [events]: a recording of a million events, made up
big() {
    cargo build -q --release --workspace --example big
    target/release/examples/big "$@"
}
