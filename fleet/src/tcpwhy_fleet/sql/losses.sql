-- One row per direction of each pair that retransmitted, or of which its host dropped packets: which of its segments
-- left, and which came. What one end had sent by its last sample is held against what the other had received by then and
-- by its own last sample: between the two lies the truth, whatever the clocks say within their interval.
--
-- host | text | Host that sends.
-- local_addr | address | Its address.
-- local_port | id | Its port.
-- remote_host | text | Host that receives.
-- remote_addr | address | Address that it sends to.
-- remote_port | id | Port of that.
-- segments_out | segments | Segments with data sent, retransmitted ones included, and those that its host dropped.
-- retransmitted | segments | Of those, retransmitted.
-- not_left | segments | Retransmissions of which the host itself says that they did not leave: dropped by its queueing discipline, or refused.
-- interface_drops | count | Packets that the interface of its address dropped as they left while it was recorded, of all connections; where that is not known, its interfaces together.
-- lost_least | segments | Left the host and never came: no less.
-- lost_most | segments | No more: what was under way at the last samples is in it. What is lost is retransmitted, or not acknowledged yet.
-- came_twice | segments | Retransmitted and not lost: the first had come, its acknowledgement was late or lost; at least.
-- dropped_here | count | Packets of this direction that the kernel of the sending host dropped: a firewall, a queueing discipline.
-- dropped_there | count | Packets of this direction that the kernel of the receiving host dropped before TCP had them.
-- dropped_back | count | Packets of the other direction that either kernel dropped: acknowledgements of this one among them.
-- lost_at | text | Where most of what was lost was: `sender`, `receiver`, or else the `path`; `back` where nothing need have been lost, but acknowledgements; null when nothing was, or drops were not recorded at both.
-- clock_within_ns | ns | Half of the interval that the difference of the clocks is in.
WITH drops AS (
    -- Of a drop the local end is where the packet was to go. What TCP itself drops had come.
    SELECT rec, netns, local_addr, local_port, remote_addr, remote_port, COUNT(*) AS n
    FROM event
    WHERE kind = 'drop' AND (reason IS NULL OR reason = 'TCP_CSUM'
        OR reason NOT LIKE 'TCP%' AND reason NOT IN ('SOCKET_BACKLOG', 'SOCKET_RCVBUFF', 'PROTO_MEM'))
    GROUP BY rec, netns, local_addr, local_port, remote_addr, remote_port
),
lossy AS (
    SELECT p.*, COALESCE(d.n, 0) AS c_dropped, COALESCE(e.n, 0) AS s_dropped
    FROM pairs AS p
    LEFT JOIN drops AS d
        ON d.rec = p.c_rec AND d.netns = p.c_netns AND d.local_addr = p.c_remote_addr AND d.local_port = p.c_remote_port
            AND d.remote_addr = p.c_addr AND d.remote_port = p.c_port
    LEFT JOIN drops AS e
        ON e.rec = p.s_rec AND e.netns = p.s_netns AND e.local_addr = p.s_remote_addr AND e.local_port = p.s_remote_port
            AND e.remote_addr = p.s_addr AND e.remote_port = p.s_port
    WHERE p.clock_offset_ns IS NOT NULL
        AND ((p.c_retransmitted > 0 OR d.n > 0) AND p.c_segments_out > 0
            OR (p.s_retransmitted > 0 OR e.n > 0) AND p.s_segments_out > 0)
),
sides AS (
    SELECT
        c_rec, c_netns, c_sock, c_port, c_remote_port, clock_within_ns, 'c' AS side, 0 AS ahead_ns,
        c_rec AS rec, c_netns AS netns, c_sock AS sock, c_port AS local_port, c_remote_port AS remote_port
    FROM lossy
    UNION ALL
    SELECT
        c_rec, c_netns, c_sock, c_port, c_remote_port, clock_within_ns, 's', clock_offset_ns,
        s_rec, s_netns, s_sock, s_port, s_remote_port
    FROM lossy
),
-- All times by the clock of the end that connected.
samples AS (
    SELECT
        e.c_rec, e.c_netns, e.c_sock, e.c_port, e.c_remote_port, e.clock_within_ns, e.side,
        s.at_ns - e.ahead_ns AS at_ns,
        s.data_segs_out, s.data_segs_in, s.total_retrans + s.unacked AS repaired_or_waiting,
        s.rtt_us * 1000 AS rtt_ns
    FROM sides AS e
    INNER JOIN socket AS s
        ON s.rec = e.rec AND s.netns = e.netns AND s.sock = e.sock
            AND s.local_port = e.local_port AND s.remote_port = e.remote_port
    WHERE s.data_segs_out IS NOT NULL
),
timed AS (
    SELECT
        *,
        MAX(CASE WHEN side = 'c' THEN at_ns END) OVER (PARTITION BY c_rec, c_netns, c_sock, c_port, c_remote_port)
            AS c_last_ns,
        MAX(CASE WHEN side = 's' THEN at_ns END) OVER (PARTITION BY c_rec, c_netns, c_sock, c_port, c_remote_port)
            AS s_last_ns
    FROM samples
),
sums AS (
    SELECT
        c_rec, c_netns, c_sock, c_port, c_remote_port,
        MAX(CASE WHEN side = 'c' THEN data_segs_out END) AS c_out,
        MAX(CASE WHEN side = 's' THEN data_segs_out END) AS s_out,
        MAX(CASE WHEN side = 'c' THEN data_segs_in END) AS c_in,
        MAX(CASE WHEN side = 's' THEN data_segs_in END) AS s_in,
        -- Had come for sure when the sender was sampled last.
        MAX(CASE WHEN side = 'c' AND at_ns <= s_last_ns - clock_within_ns THEN data_segs_in END) AS c_in_by_then,
        MAX(CASE WHEN side = 's' AND at_ns <= c_last_ns - clock_within_ns THEN data_segs_in END) AS s_in_by_then,
        -- Had been sent a round trip before the receiver was sampled last: it has come by then, or is lost.
        MAX(CASE WHEN side = 'c' AND at_ns + rtt_ns <= s_last_ns - clock_within_ns THEN data_segs_out END)
            AS c_out_settled,
        MAX(CASE WHEN side = 's' AND at_ns + rtt_ns <= c_last_ns - clock_within_ns THEN data_segs_out END)
            AS s_out_settled,
        MAX(CASE WHEN side = 'c' AND at_ns = c_last_ns THEN repaired_or_waiting END) AS c_repaired,
        MAX(CASE WHEN side = 's' AND at_ns = s_last_ns THEN repaired_or_waiting END) AS s_repaired
    FROM timed
    GROUP BY c_rec, c_netns, c_sock, c_port, c_remote_port
),
directions AS (
    SELECT
        p.c_host AS host, p.c_rec AS rec, p.c_netns AS netns, p.c_sock AS sock,
        p.c_addr AS local_addr, p.c_port AS local_port, p.s_host AS remote_host,
        p.c_remote_addr AS remote_addr, p.c_remote_port AS remote_port,
        p.c_segments_out AS segments_out, p.c_retransmitted AS retransmitted, p.clock_within_ns,
        COALESCE(m.c_out_settled, 0) - m.s_in AS least,
        m.c_out - COALESCE(m.s_in_by_then, m.s_in) AS most,
        m.c_repaired AS repaired, p.c_dropped AS dropped_here, p.s_dropped AS dropped_back,
        p.s_rec AS r_rec, p.s_netns AS r_netns, p.s_addr AS r_addr, p.s_port AS r_port,
        p.s_remote_addr AS r_remote_addr, p.s_remote_port AS r_remote_port
    FROM lossy AS p
    INNER JOIN sums AS m
        ON m.c_rec = p.c_rec AND m.c_netns = p.c_netns AND m.c_sock = p.c_sock
            AND m.c_port = p.c_port AND m.c_remote_port = p.c_remote_port
    UNION ALL
    SELECT
        p.s_host, p.s_rec, p.s_netns, p.s_sock, p.s_addr, p.s_port, p.c_host, p.s_remote_addr, p.s_remote_port,
        p.s_segments_out, p.s_retransmitted, p.clock_within_ns,
        COALESCE(m.s_out_settled, 0) - m.c_in,
        m.s_out - COALESCE(m.c_in_by_then, m.c_in),
        m.s_repaired, p.s_dropped, p.c_dropped,
        p.c_rec, p.c_netns, p.c_addr, p.c_port, p.c_remote_addr, p.c_remote_port
    FROM lossy AS p
    INNER JOIN sums AS m
        ON m.c_rec = p.c_rec AND m.c_netns = p.c_netns AND m.c_sock = p.c_sock
            AND m.c_port = p.c_port AND m.c_remote_port = p.c_remote_port
),
bounds AS (
    SELECT
        *,
        GREATEST(least - dropped_here, 0) AS at_least,
        -- No more than was repaired, or still waits for its acknowledgement.
        LEAST(GREATEST(most, 0), repaired) AS at_most
    FROM directions
    WHERE (retransmitted > 0 OR dropped_here > 0) AND segments_out > 0 AND least IS NOT NULL AND most IS NOT NULL AND repaired IS NOT NULL
),
knowing AS (
    SELECT DISTINCT rec FROM source WHERE source = 'drop' AND verdict = 'attached'
),
refused AS (
    SELECT rec, netns, sock, local_port, remote_port, COUNT(*) AS n
    FROM event
    WHERE kind = 'retransmit' AND send_error IS NOT NULL AND send_error <> '0'
    GROUP BY rec, netns, sock, local_port, remote_port
),
rises AS (
    SELECT rec, netns, instance, metric, MAX("value") - MIN("value") AS rise
    FROM resource
    WHERE resource = 'network' AND metric IN ('tx_dropped', 'tx_fifo', 'tx_errors') AND instance <> 'lo'
    GROUP BY rec, netns, instance, metric
),
dropped AS (
    SELECT rec, netns, instance, SUM(rise) AS n FROM rises GROUP BY rec, netns, instance
),
dropped_by_all AS (
    SELECT rec, netns, SUM(rise) AS n FROM rises GROUP BY rec, netns
),
told AS (
    SELECT
        l.*,
        LEAST(l.at_least, l.at_most) AS lost_least,
        l.at_most AS lost_most,
        COALESCE(f.n, 0) AS not_left,
        CAST(LEAST(CASE WHEN i.interface IS NULL THEN d.n ELSE o.n END, 1e17) AS BIGINT) AS interface_drops,
        COALESCE(t.n, 0) AS dropped_there,
        l.dropped_back + COALESCE(b.n, 0) AS drops_back,
        k.rec IS NOT NULL AND j.rec IS NOT NULL AS drops_known
    FROM bounds AS l
    LEFT JOIN refused AS f
        ON f.rec = l.rec AND f.netns = l.netns AND f.sock = l.sock
            AND f.local_port = l.local_port AND f.remote_port = l.remote_port
    LEFT JOIN dropped_by_all AS d ON d.rec = l.rec AND d.netns = l.netns
    LEFT JOIN interfaces AS i ON i.rec = l.rec AND i.netns = l.netns AND i.addr = l.local_addr
    LEFT JOIN dropped AS o ON o.rec = l.rec AND o.netns = l.netns AND o.instance = i.interface
    LEFT JOIN drops AS t
        ON t.rec = l.r_rec AND t.netns = l.r_netns AND t.local_addr = l.r_addr AND t.local_port = l.r_port
            AND t.remote_addr = l.r_remote_addr AND t.remote_port = l.r_remote_port
    LEFT JOIN drops AS b
        ON b.rec = l.rec AND b.netns = l.netns AND b.local_addr = l.local_addr AND b.local_port = l.local_port
            AND b.remote_addr = l.remote_addr AND b.remote_port = l.remote_port
    LEFT JOIN knowing AS k ON k.rec = l.rec
    LEFT JOIN knowing AS j ON j.rec = l.r_rec
)
SELECT
    host, local_addr, local_port, remote_host, remote_addr, remote_port, segments_out, retransmitted,
    not_left, interface_drops, lost_least, lost_most,
    GREATEST(retransmitted - lost_most, 0) AS came_twice,
    dropped_here, dropped_there, drops_back AS dropped_back,
    CASE
        WHEN lost_most = 0 AND dropped_here = 0 OR NOT drops_known THEN NULL
        WHEN 4 * GREATEST(dropped_here, not_left) >= lost_least + lost_most AND dropped_here >= dropped_there
            THEN 'sender'
        WHEN 4 * dropped_there >= lost_least + lost_most THEN 'receiver'
        WHEN lost_least = 0 AND drops_back > 0 THEN 'back'
        ELSE 'path'
    END AS lost_at,
    clock_within_ns
FROM told
