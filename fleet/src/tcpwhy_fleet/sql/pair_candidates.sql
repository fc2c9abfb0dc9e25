-- Two ends that may be of one connection: by their initial sequence numbers, or by their addresses and ports. What
-- `pairs` chooses from. Kept: computed once, as others build on it.
--
-- c_host | text | Host of the end that connected.
-- c_rec | text | Its recording.
-- c_netns | id | Its network namespace.
-- c_sock | id | Its socket.
-- c_local_port | id | Its port.
-- c_remote_port | id | The port that it connected to.
-- s_host | text | Host of the end that was accepted.
-- s_rec | text | Its recording.
-- s_netns | id | Its network namespace.
-- s_sock | id | Its socket.
-- s_local_port | id | Its port.
-- s_remote_port | id | The port that it was connected from, as it sees it.
-- matched_by | text | `isn` or `addresses`.
-- translated | yes/no | The two name each other's addresses and ports differently: something between translates them.
-- established_ns | ns | How much later, by the two clocks, the accepted end was established; null of an older connection.
-- closed_ns | ns | How much later it was closed.
-- c_closed_first | yes/no | The end that connected closed first.
-- s_closed_first | yes/no | The other one did.
-- round_trip_ns | ns | The handshake as the connecting end saw it, nothing retransmitted; else null.
-- c_choices | count | Candidates that the connecting end has.
-- s_choices | count | Candidates that the accepted end has.
WITH established AS (
    SELECT * FROM ends WHERE outcome = 'established'
),
found AS (
    SELECT
        c.host AS c_host, c.rec AS c_rec, c.netns AS c_netns, c.sock AS c_sock,
        c.local_port AS c_local_port, c.remote_port AS c_remote_port,
        s.host AS s_host, s.rec AS s_rec, s.netns AS s_netns, s.sock AS s_sock,
        s.local_port AS s_local_port, s.remote_port AS s_remote_port,
        1 AS by_isn,
        NOT (c.local_addr = s.remote_addr AND c.local_port = s.remote_port
            AND c.remote_addr = s.local_addr AND c.remote_port = s.local_port) AS translated,
        s.established_at_ns - c.established_at_ns AS established_ns,
        s.closed_at_ns - c.closed_at_ns AS closed_ns,
        c.closed_first AS c_closed_first, s.closed_first AS s_closed_first,
        CASE WHEN c.syn_retransmits = 0 THEN c.established_at_ns - c.connect_at_ns END AS round_trip_ns,
        c.first_at_ns AS c_first, s.first_at_ns AS s_first
    FROM established AS c
    INNER JOIN established AS s
        -- The end that connected counts its own number one less.
        ON c.rcv_isn = s.snd_isn AND (c.snd_isn + 1) % 4294967296 = s.rcv_isn
    UNION ALL
    SELECT
        c.host, c.rec, c.netns, c.sock, c.local_port, c.remote_port,
        s.host, s.rec, s.netns, s.sock, s.local_port, s.remote_port,
        0, FALSE,
        s.established_at_ns - c.established_at_ns,
        s.closed_at_ns - c.closed_at_ns,
        c.closed_first, s.closed_first,
        CASE WHEN c.syn_retransmits = 0 THEN c.established_at_ns - c.connect_at_ns END,
        c.first_at_ns, s.first_at_ns
    FROM established AS c
    INNER JOIN established AS s
        ON c.local_addr = s.remote_addr AND c.local_port = s.remote_port
            AND c.remote_addr = s.local_addr AND c.remote_port = s.local_port
    WHERE c.role <> 'server' AND s.role <> 'client'
        AND NOT (c.rec = s.rec AND c.netns = s.netns AND c.sock = s.sock)
        -- Every host has a loopback.
        AND (c.local_addr NOT LIKE '127.%' AND c.local_addr <> '::1' OR c.rec = s.rec AND c.netns = s.netns)
        AND (c.snd_isn IS NULL OR s.snd_isn IS NULL
            OR c.rcv_isn = s.snd_isn AND (c.snd_isn + 1) % 4294967296 = s.rcv_isn)
),
-- Found both ways is found by the stronger.
once AS (
    SELECT
        c_host, c_rec, c_netns, c_sock, c_local_port, c_remote_port,
        s_host, s_rec, s_netns, s_sock, s_local_port, s_remote_port,
        MAX(by_isn) AS by_isn,
        MAX(CASE WHEN translated THEN 1 ELSE 0 END) AS translated,
        MAX(established_ns) AS established_ns,
        MAX(closed_ns) AS closed_ns,
        MAX(CASE WHEN c_closed_first THEN 1 WHEN c_closed_first IS NOT NULL THEN 0 END) AS c_closed_first,
        MAX(CASE WHEN s_closed_first THEN 1 WHEN s_closed_first IS NOT NULL THEN 0 END) AS s_closed_first,
        MAX(round_trip_ns) AS round_trip_ns
    FROM found
    -- Clocks may be minutes apart; what is further apart is another connection of the same numbers.
    WHERE ABS(s_first - c_first) < 900000000000
    GROUP BY
        c_host, c_rec, c_netns, c_sock, c_local_port, c_remote_port,
        s_host, s_rec, s_netns, s_sock, s_local_port, s_remote_port
)
SELECT
    c_host, c_rec, c_netns, c_sock, c_local_port, c_remote_port,
    s_host, s_rec, s_netns, s_sock, s_local_port, s_remote_port,
    CASE WHEN by_isn = 1 THEN 'isn' ELSE 'addresses' END AS matched_by,
    translated = 1 AS translated,
    established_ns,
    closed_ns,
    c_closed_first = 1 AS c_closed_first,
    s_closed_first = 1 AS s_closed_first,
    round_trip_ns,
    COUNT(*) OVER (PARTITION BY c_rec, c_netns, c_sock, c_local_port, c_remote_port, by_isn) AS c_choices,
    COUNT(*) OVER (PARTITION BY s_rec, s_netns, s_sock, s_local_port, s_remote_port, by_isn) AS s_choices
FROM once
