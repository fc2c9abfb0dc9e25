-- One row per connection, whether both of its ends were recorded or one: what `blame` and most questions begin with.
--
-- client_host | text | Host that connected; null when its end was not recorded.
-- server_host | text | Host that accepted; null likewise.
-- seen_by | text | `both`, `client`, `server`, or `unknown` for one end of which nobody knows which it is.
-- client_addr | address | Address that connected.
-- server_addr | address | Address that was connected to, as the connecting end sees it where it was recorded.
-- server_port | id | Port of the server.
-- outcome | text | As in `ends`; of a connection seen at both, `established`.
-- handshake_ms | ms | From connect() until established; null when the connecting end was not recorded, or is older.
-- syn_retransmits | count | SYNs retransmitted; 0 when the connecting end was not recorded.
-- cookie | yes/no | Made from a SYN cookie; null when the accepted end was not recorded.
-- sack | yes/no | SACK was agreed on.
-- window_scaling | yes/no | Window scaling was agreed on.
-- timestamps | yes/no | Timestamps were agreed on.
-- backlog | count | Limit of the accept queue of the listener; null as for cookie.
-- congestion | text | Congestion control of who sent more.
-- comm | text | Program that connected.
-- client_cgroup | text | cgroup of the connecting end, by its path; null when that is not known.
-- server_cgroup | text | cgroup of the accepted end.
-- client_interface | text | Interface of the connecting end.
-- server_interface | text | Interface of the accepted end.
-- min_rtt_us | µs | Least round-trip time sampled.
-- segments_out | segments | Segments with data that its recorded ends sent.
-- retransmitted | segments | Of those, retransmitted.
-- bytes | bytes | Bytes that its recorded ends sent and had acknowledged; of one end, also what it received.
-- busy_ms | ms | Time in which who sent more had data in flight or to send.
-- peer_window_ms | ms | Of that, waiting for the peer's window.
-- send_rate | bytes/s | Bytes of who sent more by its busy time, where TCP and not the application set it (`bulk` of ends); null below 100 kB or 10 ms of it, and of the first ten round trips of what had not ended.
WITH sides AS (
    SELECT
        e.*,
        CASE WHEN c.c_rec IS NOT NULL THEN 'paired client' WHEN s.s_rec IS NOT NULL THEN 'paired server'
            ELSE e.role END AS side,
        c.s_rec AS peer_rec, c.s_netns AS peer_netns, c.s_sock AS peer_sock,
        c.s_port AS peer_local_port, c.s_remote_port AS peer_remote_port
    FROM ends AS e
    LEFT JOIN pairs AS c
        ON c.c_rec = e.rec AND c.c_netns = e.netns AND c.c_sock = e.sock
            AND c.c_port = e.local_port AND c.c_remote_port = e.remote_port
    LEFT JOIN pairs AS s
        ON s.s_rec = e.rec AND s.s_netns = e.netns AND s.s_sock = e.sock
            AND s.s_port = e.local_port AND s.s_remote_port = e.remote_port
),
joined AS (
    SELECT
        CASE WHEN a.side IN ('paired client', 'client', 'unknown') THEN a.host END AS client_host,
        CASE WHEN a.side = 'paired client' THEN b.host WHEN a.side = 'server' THEN a.host END AS server_host,
        CASE WHEN a.side = 'paired client' THEN 'both' ELSE a.side END AS seen_by,
        CASE WHEN a.side = 'server' THEN a.remote_addr ELSE a.local_addr END AS client_addr,
        CASE WHEN a.side = 'server' THEN a.local_addr ELSE a.remote_addr END AS server_addr,
        CASE WHEN a.side = 'server' THEN a.local_port ELSE a.remote_port END AS server_port,
        a.outcome, a.handshake_ms, a.syn_retransmits,
        COALESCE(b.cookie, a.cookie) AS cookie,
        COALESCE(a.sack, b.sack) AS sack,
        COALESCE(a.window_scaling, b.window_scaling) AS window_scaling,
        COALESCE(a.timestamps, b.timestamps) AS timestamps,
        COALESCE(b.backlog, a.backlog) AS backlog,
        a.comm,
        CASE WHEN a.side <> 'server' THEN a.cgroup_path END AS client_cgroup,
        CASE WHEN a.side = 'server' THEN a.cgroup_path ELSE b.cgroup_path END AS server_cgroup,
        CASE WHEN a.side <> 'server' THEN a.interface END AS client_interface,
        CASE WHEN a.side = 'server' THEN a.interface ELSE b.interface END AS server_interface,
        (GREATEST(a.last_at_ns - a.first_at_ns, COALESCE(b.last_at_ns - b.first_at_ns, 0)) + 2000000000) / 1e6
            AS at_most_ms,
        CASE WHEN a.min_rtt_us IS NULL THEN b.min_rtt_us WHEN b.min_rtt_us IS NULL THEN a.min_rtt_us
            ELSE LEAST(a.min_rtt_us, b.min_rtt_us) END AS min_rtt_us,
        COALESCE(a.segments_out, 0) + COALESCE(b.segments_out, 0) AS segments_out,
        COALESCE(a.retransmitted, 0) + COALESCE(b.retransmitted, 0) AS retransmitted,
        CASE WHEN a.side = 'paired client' THEN COALESCE(a.bytes_sent, 0) + COALESCE(b.bytes_sent, 0)
            ELSE COALESCE(a.bytes_sent, 0) + COALESCE(a.bytes_received, 0) END AS bytes,
        CASE WHEN COALESCE(b.bytes_sent, 0) > COALESCE(a.bytes_sent, 0) THEN b.congestion ELSE a.congestion END
            AS congestion,
        CASE WHEN COALESCE(b.bytes_sent, 0) > COALESCE(a.bytes_sent, 0) THEN b.busy_bytes ELSE a.busy_bytes END
            AS busy_bytes,
        CASE WHEN COALESCE(b.bytes_sent, 0) > COALESCE(a.bytes_sent, 0) THEN b.busy_ms ELSE a.busy_ms END AS busy_ms,
        CASE WHEN COALESCE(b.bytes_sent, 0) > COALESCE(a.bytes_sent, 0) THEN b.bulk ELSE a.bulk END AS bulk,
        CASE WHEN COALESCE(b.bytes_sent, 0) > COALESCE(a.bytes_sent, 0) THEN b.under_way ELSE a.under_way END
            AS under_way,
        CASE WHEN COALESCE(b.bytes_sent, 0) > COALESCE(a.bytes_sent, 0) THEN b.peer_window_ms
            ELSE a.peer_window_ms END AS peer_window_ms
    FROM sides AS a
    LEFT JOIN ends AS b
        ON b.rec = a.peer_rec AND b.netns = a.peer_netns AND b.sock = a.peer_sock
            AND b.local_port = a.peer_local_port AND b.remote_port = a.peer_remote_port
    WHERE a.side <> 'paired server'
)
SELECT
    client_host, server_host, seen_by, client_addr, server_addr, server_port, outcome, handshake_ms,
    CAST(syn_retransmits AS BIGINT) AS syn_retransmits, cookie, sack, window_scaling, timestamps, backlog,
    congestion, comm, client_cgroup, server_cgroup, client_interface, server_interface, min_rtt_us, segments_out, retransmitted, bytes, busy_ms, peer_window_ms,
    -- A busy time longer than the connection was seen is the kernel's clock gone wrong.
    -- The beginning of a transfer is slow start, whatever comes then.
    CASE WHEN bulk AND busy_bytes >= 100000 AND busy_ms >= 10 AND busy_ms <= at_most_ms
            AND (NOT under_way OR busy_ms * 1000 >= 10 * min_rtt_us)
        THEN busy_bytes * 1000.0 / busy_ms END AS send_rate
FROM joined
