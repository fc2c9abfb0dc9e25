-- One row per end of a connection: each socket that connected, was accepted or was sampled while it was open,
-- attempts to connect that failed included. Kept: by recording, as others build on it.
--
-- host | text | Host.
-- rec | text | Recording.
-- netns | id | Network namespace.
-- sock | id | The socket.
-- local_addr | address | Address of this end.
-- local_port | id | Port of this end.
-- remote_addr | address | Address of the other end, as this one sees it.
-- remote_port | id | Port of the other end.
-- role | text | `server` (a listener made it, or has its port), `client`, or `unknown`: older than the recording, and no listeners were recorded.
-- outcome | text | `established`, `refused`, `failed`, or `pending` when the recording ended.
-- first_at_ns | ns | First seen, since 1970, by the clock of the host.
-- last_at_ns | ns | Last seen.
-- connect_at_ns | ns | When connect() was called; null of an accepted end and of an older one.
-- established_at_ns | ns | When it was established; null of an older one.
-- closed_at_ns | ns | When it was closed; null when it was not.
-- closed_first | yes/no | This side closed first; null when it is not closed, or a reset or a timer ended it.
-- handshake_ms | ms | From connect() until it was established.
-- syn_retransmits | count | SYNs retransmitted.
-- error | text | What ended it, as `errno` has it.
-- cookie | yes/no | Made from a SYN cookie.
-- sack | yes/no | SACK was agreed on.
-- window_scaling | yes/no | Window scaling was agreed on.
-- timestamps | yes/no | Timestamps were agreed on.
-- mss | bytes | Segment size for sending.
-- congestion | text | Congestion control; null when it was never sampled so.
-- min_rtt_us | µs | Least round-trip time sampled.
-- rtt_us | µs | Smoothed round-trip time: average of the samples, else as it closed.
-- segments_out | segments | Segments with data sent while recorded, retransmitted ones included; null when it was never sampled.
-- segments_in | segments | Segments with data received while recorded.
-- retransmitted | segments | Segments retransmitted while recorded, SYNs apart.
-- spurious | segments | Duplicates that the other end reported (DSACK): they had come.
-- rtos | count | Retransmission timeouts; null before Linux 6.7.
-- bytes_sent | bytes | Bytes sent and acknowledged while recorded.
-- bytes_received | bytes | Bytes received while recorded.
-- busy_ms | ms | Time with data in flight or waiting to be sent, until the last sample.
-- busy_bytes | bytes | Bytes sent and acknowledged until then; bytes_sent goes on until it closed.
-- under_way | yes/no | In the last sample something was not sent or not acknowledged yet; null when it was never sampled.
-- peer_window_ms | ms | Of busy_ms, waiting for the peer's window.
-- send_buffer_ms | ms | Of that, waiting for send buffer.
-- bulk | yes/no | In most samples that had data under way a whole segment was not sent yet, the congestion window was full, or most of the time the peer's window was: its rate was TCP's, not the application's; null when it was never sampled.
-- snd_isn | sequence number | Initial sequence number of what it sends; null when it was never sampled established, and no packets were recorded.
-- rcv_isn | sequence number | Initial sequence number of what it receives.
-- comm | text | Program that connected; null when it is not known.
-- cgroup | id | cgroup v2 id of the socket.
-- cgroup_path | text | What that is called on the host; null when nobody saw it.
-- interface | text | Interface that has the address of this end; null when several have it, or it was not recorded.
-- backlog | count | Of a server: limit of the accept queue of the listener that has its port.
WITH seen AS (
    SELECT
        host, rec, netns, sock, local_addr, local_port, remote_addr, remote_port, at_ns, error,
        CASE WHEN kind <> 'state' THEN NULL WHEN state = 'SYN_SENT' THEN at_ns ELSE connect_at_ns END AS connected,
        CASE WHEN kind <> 'state' THEN NULL WHEN state = 'ESTABLISHED' THEN at_ns ELSE established_at_ns END
            AS established,
        CASE WHEN kind = 'state' AND state = 'CLOSE' THEN at_ns END AS closed,
        -- Of one that a reset or a timer ended, states do not tell the order.
        CASE WHEN kind <> 'state' OR state <> 'CLOSE' OR error IS NOT NULL THEN NULL
            WHEN old_state IN ('FIN_WAIT2', 'CLOSING') THEN 1 WHEN old_state = 'LAST_ACK' THEN 0 END AS first_to_close,
        CASE WHEN kind <> 'state' THEN NULL
            WHEN state = 'ESTABLISHED' AND old_state <> 'SYN_SENT' THEN 1
            WHEN established_at_ns IS NOT NULL AND connect_at_ns IS NULL THEN 1 END AS accepted,
        CASE WHEN kind = 'retransmit' AND state = 'SYN_SENT' THEN 1 ELSE 0 END AS syn_retransmit,
        CASE WHEN cookie THEN 1 WHEN cookie IS NOT NULL THEN 0 END AS cookie,
        CASE WHEN sack THEN 1 WHEN sack IS NOT NULL THEN 0 END AS sack,
        CASE WHEN window_scaling THEN 1 WHEN window_scaling IS NOT NULL THEN 0 END AS window_scaling,
        CASE WHEN timestamps THEN 1 WHEN timestamps IS NOT NULL THEN 0 END AS timestamps,
        mss, CAST(NULL AS VARCHAR) AS congestion, CAST(NULL AS BIGINT) AS min_rtt_us,
        CASE WHEN state = 'CLOSE' THEN rtt_us END AS closing_rtt_us, CAST(NULL AS BIGINT) AS sampled_rtt_us,
        CAST(NULL AS BIGINT) AS segments_out, CAST(NULL AS BIGINT) AS segments_in,
        CASE WHEN kind IN ('state', 'retransmit') THEN retransmits END AS retransmits,
        CAST(NULL AS BIGINT) AS retransmits_before,
        CAST(NULL AS BIGINT) AS spurious, CAST(NULL AS BIGINT) AS rtos,
        bytes_acked, CAST(NULL AS BIGINT) AS acked_before, bytes_received, CAST(NULL AS BIGINT) AS received_before,
        CAST(NULL AS BIGINT) AS busy_us, CAST(NULL AS BIGINT) AS rwnd_limited_us,
        CAST(NULL AS BIGINT) AS sndbuf_limited_us, CAST(NULL AS INT) AS bulk,
        CAST(NULL AS BIGINT) AS sampled_at, CAST(NULL AS BIGINT) AS under_way_at,
        CAST(NULL AS BIGINT) AS snd_isn, CAST(NULL AS BIGINT) AS rcv_isn,
        comm, cgroup, 0 AS sampled
    FROM event
    WHERE kind IN ('state', 'retransmit') AND local_port <> 0 AND remote_port <> 0
    UNION ALL
    SELECT
        host, rec, netns, sock, local_addr, local_port, remote_addr, remote_port, at_ns, NULL,
        NULL, NULL, NULL, NULL, NULL, 0, NULL,
        CASE WHEN state = 'SYN_SENT' THEN NULL WHEN sack THEN 1 ELSE 0 END,
        CASE WHEN state = 'SYN_SENT' THEN NULL WHEN window_scaling THEN 1 ELSE 0 END,
        CASE WHEN state = 'SYN_SENT' THEN NULL WHEN timestamps THEN 1 ELSE 0 END,
        CASE WHEN state = 'SYN_SENT' THEN NULL ELSE snd_mss END, congestion, min_rtt_us, NULL,
        CASE WHEN state = 'SYN_SENT' THEN NULL ELSE rtt_us END,
        data_segs_out, data_segs_in, total_retrans, total_retrans, dsack_dups, total_rto,
        bytes_acked, bytes_acked, bytes_received, bytes_received, busy_us, rwnd_limited_us, sndbuf_limited_us,
        CASE WHEN unacked = 0 AND notsent_bytes = 0 THEN NULL
            WHEN notsent_bytes > snd_mss OR unacked >= cwnd OR rwnd_limited_us * 2 > busy_us THEN 1 ELSE 0 END,
        at_ns, CASE WHEN unacked > 0 OR notsent_bytes > 0 THEN at_ns END,
        snd_isn, rcv_isn, NULL, cgroup, CASE WHEN state = 'SYN_SENT' THEN 0 ELSE 1 END
    FROM socket
    WHERE state NOT IN ('TIME_WAIT', 'NEW_SYN_RECV', 'SYN_RECV') AND congestion IS NOT NULL
        AND local_port <> 0 AND remote_port <> 0
),
merged AS (
    SELECT
        host, rec, netns, sock, local_addr, local_port, remote_addr, remote_port,
        LEAST(MIN(at_ns), COALESCE(MIN(connected), MIN(at_ns)), COALESCE(MIN(established), MIN(at_ns)))
            AS first_at_ns,
        MAX(at_ns) AS last_at_ns,
        MIN(connected) AS connect_at_ns,
        MIN(established) AS established_at_ns,
        MAX(closed) AS closed_at_ns,
        MAX(first_to_close) AS first_to_close,
        MAX(accepted) AS accepted,
        SUM(syn_retransmit) AS syn_retransmits,
        MAX(error) AS error,
        MAX(cookie) AS cookie,
        MAX(sack) AS sack,
        MAX(window_scaling) AS window_scaling,
        MAX(timestamps) AS timestamps,
        MAX(mss) AS mss,
        MAX(congestion) AS congestion,
        MIN(min_rtt_us) AS min_rtt_us,
        COALESCE(AVG(sampled_rtt_us), MAX(closing_rtt_us)) AS rtt_us,
        -- What had been counted before the first sample counts where the connection began while recorded.
        MAX(segments_out) AS segments_out, MIN(segments_out) AS out_before,
        MAX(segments_in) AS segments_in, MIN(segments_in) AS in_before,
        MAX(retransmits) AS retransmits, MIN(retransmits_before) AS retransmits_before,
        MAX(spurious) AS spurious, MIN(spurious) AS spurious_before,
        MAX(rtos) AS rtos, MIN(rtos) AS rtos_before,
        MAX(bytes_acked) AS bytes_acked, MIN(acked_before) AS acked_before,
        MAX(acked_before) AS acked_sampled,
        MAX(bytes_received) AS bytes_received, MIN(received_before) AS received_before,
        MAX(busy_us) AS busy_us, MIN(busy_us) AS busy_before,
        MAX(rwnd_limited_us) AS rwnd_us, MIN(rwnd_limited_us) AS rwnd_before,
        MAX(sndbuf_limited_us) AS sndbuf_us, MIN(sndbuf_limited_us) AS sndbuf_before,
        AVG(bulk) AS bulk,
        MAX(sampled_at) AS sampled_at, MAX(under_way_at) AS under_way_at,
        MAX(snd_isn) AS snd_isn,
        MAX(rcv_isn) AS rcv_isn,
        MAX(comm) AS comm,
        MAX(cgroup) AS cgroup,
        MAX(sampled) AS sampled,
        CASE WHEN MIN(connected) IS NULL AND MIN(established) IS NULL THEN 1 ELSE 0 END AS older
    FROM seen
    GROUP BY host, rec, netns, sock, local_addr, local_port, remote_addr, remote_port
),
ports AS (
    SELECT rec, netns, local_port, MIN(backlog) AS backlog FROM listener GROUP BY rec, netns, local_port
),
listening AS (
    SELECT DISTINCT rec FROM listener
),
openings AS (
    SELECT
        rec, netns, outgoing, seq,
        CASE WHEN outgoing THEN src_addr ELSE dst_addr END AS local_addr,
        CASE WHEN outgoing THEN src_port ELSE dst_port END AS local_port,
        CASE WHEN outgoing THEN dst_addr ELSE src_addr END AS remote_addr,
        CASE WHEN outgoing THEN dst_port ELSE src_port END AS remote_port,
        -- Of what a SYN alone opens, the end that sends it counts one less, as in samples.
        CASE WHEN outgoing AND FLOOR(flags / 16) % 2 = 0 THEN seq ELSE (seq + 1) % 4294967296 END AS isn
    FROM packet
    WHERE FLOOR(flags / 2) % 2 = 1
),
numbers AS (
    SELECT
        rec, netns, local_addr, local_port, remote_addr, remote_port,
        MAX(CASE WHEN outgoing THEN isn END) AS snd_isn,
        MAX(CASE WHEN NOT outgoing THEN isn END) AS rcv_isn
    FROM openings
    GROUP BY rec, netns, local_addr, local_port, remote_addr, remote_port
    -- Ports that were used again are of nobody.
    HAVING COUNT(DISTINCT CASE WHEN outgoing THEN seq END) = 1
        AND COUNT(DISTINCT CASE WHEN NOT outgoing THEN seq END) = 1
),
cgroups AS (
    SELECT rec, cgroup, MAX(path) AS path FROM cgroup GROUP BY rec, cgroup
)
SELECT
    m.host, m.rec, m.netns, m.sock, m.local_addr, m.local_port, m.remote_addr, m.remote_port,
    CASE
        WHEN m.accepted = 1 THEN 'server'
        WHEN m.connect_at_ns IS NOT NULL THEN 'client'
        WHEN p.local_port IS NOT NULL THEN 'server'
        WHEN l.rec IS NOT NULL THEN 'client'
        ELSE 'unknown'
    END AS role,
    CASE
        WHEN m.established_at_ns IS NOT NULL OR m.sampled = 1 THEN 'established'
        WHEN m.error = 'ECONNREFUSED' THEN 'refused'
        WHEN m.closed_at_ns IS NOT NULL THEN 'failed'
        ELSE 'pending'
    END AS outcome,
    m.first_at_ns, m.last_at_ns, m.connect_at_ns, m.established_at_ns, m.closed_at_ns,
    m.first_to_close = 1 AS closed_first,
    (m.established_at_ns - m.connect_at_ns) / 1e6 AS handshake_ms,
    m.syn_retransmits, m.error,
    m.cookie = 1 AS cookie,
    m.sack = 1 AS sack,
    m.window_scaling = 1 AS window_scaling,
    m.timestamps = 1 AS timestamps,
    m.mss, m.congestion, m.min_rtt_us,
    CAST(m.rtt_us AS DOUBLE) AS rtt_us,
    m.segments_out - m.older * m.out_before AS segments_out,
    m.segments_in - m.older * m.in_before AS segments_in,
    GREATEST(m.retransmits - m.older * COALESCE(m.retransmits_before, 0) - m.syn_retransmits, 0) AS retransmitted,
    m.spurious - m.older * m.spurious_before AS spurious,
    m.rtos - m.older * m.rtos_before AS rtos,
    m.bytes_acked - m.older * COALESCE(m.acked_before, 0) AS bytes_sent,
    m.bytes_received - m.older * COALESCE(m.received_before, 0) AS bytes_received,
    (m.busy_us - m.older * m.busy_before) / 1e3 AS busy_ms,
    m.acked_sampled - m.older * m.acked_before AS busy_bytes,
    CASE WHEN m.sampled_at IS NOT NULL THEN COALESCE(m.under_way_at, 0) = m.sampled_at END AS under_way,
    (m.rwnd_us - m.older * m.rwnd_before) / 1e3 AS peer_window_ms,
    (m.sndbuf_us - m.older * m.sndbuf_before) / 1e3 AS send_buffer_ms,
    m.bulk >= 0.5 AS bulk,
    COALESCE(m.snd_isn, n.snd_isn) AS snd_isn, COALESCE(m.rcv_isn, n.rcv_isn) AS rcv_isn, m.comm, m.cgroup, g.path AS cgroup_path, i.interface,
    CASE WHEN m.accepted = 1 OR (m.connect_at_ns IS NULL AND p.local_port IS NOT NULL) THEN p.backlog END AS backlog
FROM merged AS m
LEFT JOIN ports AS p ON p.rec = m.rec AND p.netns = m.netns AND p.local_port = m.local_port
LEFT JOIN listening AS l ON l.rec = m.rec
LEFT JOIN interfaces AS i ON i.rec = m.rec AND i.netns = m.netns AND i.addr = m.local_addr
LEFT JOIN cgroups AS g ON g.rec = m.rec AND g.cgroup = m.cgroup
LEFT JOIN numbers AS n
    ON n.rec = m.rec AND n.netns = m.netns AND n.local_addr = m.local_addr AND n.local_port = m.local_port
        AND n.remote_addr = m.remote_addr AND n.remote_port = m.remote_port
