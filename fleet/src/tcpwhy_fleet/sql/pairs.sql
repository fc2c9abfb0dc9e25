-- One row per connection of which both ends were recorded, joined by initial sequence numbers where these are known,
-- whatever translates addresses, else by addresses, ports and time. Kept: computed once, as others build on it.
--
-- c_host | text | Host of the end that connected.
-- c_rec | text | Its recording.
-- c_netns | id | Its network namespace.
-- c_sock | id | Its socket.
-- c_addr | address | Its address.
-- c_port | id | Its port.
-- s_host | text | Host of the end that was accepted.
-- s_rec | text | Its recording.
-- s_netns | id | Its network namespace.
-- s_sock | id | Its socket.
-- s_addr | address | Its address, as it sees it.
-- s_port | id | Its port.
-- c_remote_addr | address | What the connecting end connected to.
-- c_remote_port | id | The port of that.
-- s_remote_addr | address | Who the accepted end was connected from, as it sees it.
-- s_remote_port | id | The port of that.
-- matched_by | text | `isn` or `addresses`.
-- translated | yes/no | Something between translates addresses or ports.
-- clock_offset_ns | ns | Clock of s_host less that of c_host; 0 on one host, null when nothing bounds it.
-- clock_within_ns | ns | Half of the interval that it is in.
-- established_at_ns | ns | When the connecting end was established, by its clock.
-- handshake_ms | ms | From connect() until then.
-- cookie | yes/no | The accepted end was made from a SYN cookie.
-- sack | yes/no | SACK was agreed on.
-- window_scaling | yes/no | Window scaling was agreed on.
-- timestamps | yes/no | Timestamps were agreed on.
-- backlog | count | Limit of the accept queue of the listener.
-- min_rtt_us | µs | Least round-trip time that either end sampled.
-- c_segments_out | segments | Segments with data that the connecting end sent.
-- s_segments_in | segments | Of those, that the accepted end received, as far as it was sampled.
-- s_segments_out | segments | Segments with data that the accepted end sent.
-- c_segments_in | segments | Of those, that the connecting end received.
-- c_retransmitted | segments | Segments that the connecting end retransmitted.
-- s_retransmitted | segments | Segments that the accepted end retransmitted.
-- c_bytes_sent | bytes | Bytes that the connecting end sent.
-- s_bytes_sent | bytes | Bytes that the accepted end sent.
WITH placed AS (
    SELECT
        p.*,
        CASE WHEN p.c_host = p.s_host THEN 0 WHEN p.c_host < p.s_host THEN o.offset_ns ELSE -o.offset_ns END
            AS clock_offset_ns,
        CASE WHEN p.c_host = p.s_host THEN 0 ELSE (o.most_ns - o.least_ns) / 2 END AS clock_within_ns
    FROM pair_candidates AS p
    LEFT JOIN clock_offsets AS o
        ON o.host_a = LEAST(p.c_host, p.s_host) AND o.host_b = GREATEST(p.c_host, p.s_host)
),
ranked AS (
    SELECT
        *,
        ROW_NUMBER() OVER (
            PARTITION BY c_rec, c_netns, c_sock, c_local_port, c_remote_port
            ORDER BY CASE WHEN matched_by = 'isn' THEN 0 ELSE 1 END,
                COALESCE(ABS(established_ns - clock_offset_ns), 9223372036854775807), s_rec, s_netns, s_sock
        ) AS c_rank,
        ROW_NUMBER() OVER (
            PARTITION BY s_rec, s_netns, s_sock, s_local_port, s_remote_port
            ORDER BY CASE WHEN matched_by = 'isn' THEN 0 ELSE 1 END,
                COALESCE(ABS(established_ns - clock_offset_ns), 9223372036854775807), c_rec, c_netns, c_sock
        ) AS s_rank
    FROM placed
    -- Of several of the same addresses and ports, time decides; where it is not known, nobody does.
    WHERE matched_by = 'isn' OR c_choices = 1 AND s_choices = 1
        OR ABS(established_ns - clock_offset_ns) <= 1000000000 + clock_within_ns
)
SELECT
    r.c_host, r.c_rec, r.c_netns, r.c_sock, c.local_addr AS c_addr, r.c_local_port AS c_port,
    r.s_host, r.s_rec, r.s_netns, r.s_sock, s.local_addr AS s_addr, r.s_local_port AS s_port,
    c.remote_addr AS c_remote_addr, c.remote_port AS c_remote_port,
    s.remote_addr AS s_remote_addr, s.remote_port AS s_remote_port,
    r.matched_by, r.translated, r.clock_offset_ns,
    CAST(r.clock_within_ns AS DOUBLE) AS clock_within_ns,
    c.established_at_ns, c.handshake_ms, s.cookie,
    COALESCE(c.sack, s.sack) AS sack,
    COALESCE(c.window_scaling, s.window_scaling) AS window_scaling,
    COALESCE(c.timestamps, s.timestamps) AS timestamps,
    s.backlog,
    CASE WHEN c.min_rtt_us IS NOT NULL AND s.min_rtt_us IS NOT NULL THEN LEAST(c.min_rtt_us, s.min_rtt_us)
        ELSE COALESCE(c.min_rtt_us, s.min_rtt_us) END AS min_rtt_us,
    c.segments_out AS c_segments_out, s.segments_in AS s_segments_in,
    s.segments_out AS s_segments_out, c.segments_in AS c_segments_in,
    c.retransmitted AS c_retransmitted, s.retransmitted AS s_retransmitted,
    c.bytes_sent AS c_bytes_sent, s.bytes_sent AS s_bytes_sent
FROM ranked AS r
INNER JOIN ends AS c
    ON c.rec = r.c_rec AND c.netns = r.c_netns AND c.sock = r.c_sock
        AND c.local_port = r.c_local_port AND c.remote_port = r.c_remote_port
INNER JOIN ends AS s
    ON s.rec = r.s_rec AND s.netns = r.s_netns AND s.sock = r.s_sock
        AND s.local_port = r.s_local_port AND s.remote_port = r.s_remote_port
WHERE r.c_rank = 1 AND r.s_rank = 1
