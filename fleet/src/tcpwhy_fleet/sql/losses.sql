-- One row per direction of each pair that retransmitted: which of its segments left, and which came. What one end had
-- sent by its last sample is held against what the other had received by then and by its own last sample: between the
-- two lies the truth, whatever the clocks say within their interval.
--
-- host | text | Host that sends.
-- local_addr | address | Its address.
-- local_port | id | Its port.
-- remote_host | text | Host that receives.
-- remote_addr | address | Address that it sends to.
-- remote_port | id | Port of that.
-- segments_out | segments | Segments with data sent, retransmitted ones included.
-- retransmitted | segments | Of those, retransmitted.
-- not_left | segments | Retransmissions of which the host itself says that they did not leave: dropped by its queueing discipline, or refused.
-- interface_drops | count | Packets that its interfaces dropped as they left while it was recorded, of all connections.
-- lost_least | segments | Sent and never come: no less.
-- lost_most | segments | No more: what was under way at the last samples is in it. What is lost is retransmitted, or not acknowledged yet.
-- came_twice | segments | Retransmitted and not lost: the first had come, its acknowledgement was late or lost; at least.
-- clock_within_ns | ns | Half of the interval that the difference of the clocks is in.
WITH directions AS (
    SELECT
        c_host AS host, c_rec AS rec, c_netns AS netns, c_sock AS sock, c_addr AS local_addr, c_port AS local_port,
        c_remote_addr AS remote_addr, c_remote_port AS remote_port,
        s_host AS peer_host, s_rec AS peer_rec, s_netns AS peer_netns, s_sock AS peer_sock,
        s_port AS peer_local_port, s_remote_port AS peer_remote_port,
        c_segments_out AS segments_out, c_retransmitted AS retransmitted,
        clock_offset_ns, clock_within_ns, COALESCE(min_rtt_us, 0) AS min_rtt_us
    FROM pairs
    UNION ALL
    SELECT
        s_host, s_rec, s_netns, s_sock, s_addr, s_port, s_remote_addr, s_remote_port,
        c_host, c_rec, c_netns, c_sock, c_port, c_remote_port,
        s_segments_out, s_retransmitted, -clock_offset_ns, clock_within_ns, COALESCE(min_rtt_us, 0)
    FROM pairs
),
lossy AS (
    SELECT * FROM directions WHERE retransmitted > 0 AND segments_out > 0 AND clock_offset_ns IS NOT NULL
),
samples AS (
    SELECT l.rec, l.netns, l.sock, l.local_port, l.remote_port,
        s.at_ns AS last_ns, s.data_segs_out AS segments_out, s.total_retrans AS retransmitted_by_then, s.unacked,
        ROW_NUMBER() OVER (
            PARTITION BY l.rec, l.netns, l.sock, l.local_port, l.remote_port ORDER BY s.at_ns DESC
        ) AS n
    FROM lossy AS l
    INNER JOIN socket AS s
        ON s.rec = l.rec AND s.netns = l.netns AND s.sock = l.sock
            AND s.local_port = l.local_port AND s.remote_port = l.remote_port
    WHERE s.data_segs_out IS NOT NULL
),
sent AS (
    SELECT * FROM samples WHERE n = 1
),
received AS (
    SELECT
        l.rec, l.netns, l.sock, l.local_port, l.remote_port,
        MAX(s.data_segs_in) AS segments_in,
        MAX(s.at_ns) AS last_ns,
        -- Had come for sure when the sender was sampled last.
        MAX(CASE WHEN s.at_ns <= t.last_ns + l.clock_offset_ns - l.clock_within_ns THEN s.data_segs_in END)
            AS segments_in_by_then
    FROM lossy AS l
    INNER JOIN sent AS t
        ON t.rec = l.rec AND t.netns = l.netns AND t.sock = l.sock
            AND t.local_port = l.local_port AND t.remote_port = l.remote_port
    INNER JOIN socket AS s
        ON s.rec = l.peer_rec AND s.netns = l.peer_netns AND s.sock = l.peer_sock
            AND s.local_port = l.peer_local_port AND s.remote_port = l.peer_remote_port
    WHERE s.data_segs_in IS NOT NULL
    GROUP BY l.rec, l.netns, l.sock, l.local_port, l.remote_port
),
-- What had been sent a round trip before the receiver was sampled last: it has come by then, or is lost.
settled AS (
    SELECT
        l.rec, l.netns, l.sock, l.local_port, l.remote_port,
        MAX(s.data_segs_out) AS segments_out
    FROM lossy AS l
    INNER JOIN received AS r
        ON r.rec = l.rec AND r.netns = l.netns AND r.sock = l.sock
            AND r.local_port = l.local_port AND r.remote_port = l.remote_port
    INNER JOIN socket AS s
        ON s.rec = l.rec AND s.netns = l.netns AND s.sock = l.sock
            AND s.local_port = l.local_port AND s.remote_port = l.remote_port
    WHERE s.at_ns + s.rtt_us * 1000 <= r.last_ns - l.clock_offset_ns - l.clock_within_ns
    GROUP BY l.rec, l.netns, l.sock, l.local_port, l.remote_port
),
refused AS (
    SELECT rec, netns, sock, local_port, remote_port, COUNT(*) AS n
    FROM event
    WHERE kind = 'retransmit' AND send_error IS NOT NULL AND send_error <> '0'
    GROUP BY rec, netns, sock, local_port, remote_port
),
dropped AS (
    SELECT rec, netns, SUM(rise) AS n
    FROM (
        SELECT rec, netns, instance, metric, MAX("value") - MIN("value") AS rise
        FROM resource
        WHERE resource = 'network' AND metric IN ('tx_dropped', 'tx_fifo', 'tx_errors') AND instance <> 'lo'
        GROUP BY rec, netns, instance, metric
    ) AS rises
    GROUP BY rec, netns
),
bounds AS (
    SELECT
        l.*,
        GREATEST(COALESCE(e.segments_out, 0) - r.segments_in, 0) AS lost_least,
        -- What had left by the sender's last sample and not come by then; and no more than was repaired, or still
        -- waits for its acknowledgement.
        LEAST(
            GREATEST(t.segments_out - COALESCE(r.segments_in_by_then, r.segments_in), 0),
            t.retransmitted_by_then + t.unacked
        ) AS lost_most
    FROM lossy AS l
    INNER JOIN sent AS t
        ON t.rec = l.rec AND t.netns = l.netns AND t.sock = l.sock
            AND t.local_port = l.local_port AND t.remote_port = l.remote_port
    INNER JOIN received AS r
        ON r.rec = l.rec AND r.netns = l.netns AND r.sock = l.sock
            AND r.local_port = l.local_port AND r.remote_port = l.remote_port
    LEFT JOIN settled AS e
        ON e.rec = l.rec AND e.netns = l.netns AND e.sock = l.sock
            AND e.local_port = l.local_port AND e.remote_port = l.remote_port
)
SELECT
    l.host, l.local_addr, l.local_port, l.peer_host AS remote_host, l.remote_addr, l.remote_port,
    l.segments_out, l.retransmitted,
    COALESCE(f.n, 0) AS not_left,
    CAST(d.n AS BIGINT) AS interface_drops,
    LEAST(l.lost_least, l.lost_most) AS lost_least,
    GREATEST(l.lost_least, l.lost_most) AS lost_most,
    GREATEST(l.retransmitted - GREATEST(l.lost_least, l.lost_most), 0) AS came_twice,
    l.clock_within_ns
FROM bounds AS l
LEFT JOIN refused AS f
    ON f.rec = l.rec AND f.netns = l.netns AND f.sock = l.sock
        AND f.local_port = l.local_port AND f.remote_port = l.remote_port
LEFT JOIN dropped AS d ON d.rec = l.rec AND d.netns = l.netns
