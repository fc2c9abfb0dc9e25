-- The slowest exchanges of which both ends were recorded: how much of each was the client, the wire and the server. The
-- parts are lengths, each by one clock; clocks only say which exchange of the server is the client's.
--
-- client_host | text | Host that asked.
-- server_host | text | Host that answered.
-- server_addr | address | Address that was asked.
-- server_port | id | Its port.
-- client_comm | text | Program that asked.
-- server_comm | text | Program that answered.
-- began_at_ns | ns | When the request was written, by the clock of client_host.
-- total_ms | ms | How long the client saw it take.
-- client_ms | ms | Of that, the program that asked: writing on, reading the answer.
-- wire_ms | ms | TCP and the network: the way there and back, windows, and what was retransmitted.
-- server_ms | ms | The program that answered: accepting, reading, thinking.
-- held_back_ms | ms | Of the wire, while windows and buffers held back what either had written.
-- repair_ms | ms | Of the wire, until either side retransmitted.
-- clock_within_ns | ns | Half of the interval that the difference of the clocks is in.
WITH asked AS (
    SELECT
        x.*, p.clock_offset_ns, p.clock_within_ns, p.s_rec, p.s_netns, p.s_sock, p.s_host, p.s_remote_port,
        p.s_port,
        x.accept_ns + x.unread_ns + x.receive_ns + x.think_ns + x.await_ns + x.send_ns + x.repair_ns + x.unheard_ns
            AS total_ns
    FROM exchange AS x
    INNER JOIN pairs AS p
        ON p.c_rec = x.rec AND p.c_netns = x.netns AND p.c_sock = x.sock
            AND p.c_port = x.local_port AND p.c_remote_port = x.remote_port
    WHERE x.role = 'client' AND NOT x.open
),
matched AS (
    SELECT
        a.host AS client_host, a.s_host AS server_host, a.remote_addr AS server_addr, a.remote_port AS server_port,
        a.comm AS client_comm, y.comm AS server_comm, a.began_at_ns, a.total_ns,
        a.accept_ns + a.unread_ns + a.think_ns AS client_ns,
        y.accept_ns + y.unread_ns + y.think_ns AS server_ns,
        a.send_ns + y.send_ns AS held_back_ns,
        -- That nothing was heard of a request that had come, and that its answer was retransmitted, may be the same time.
        a.repair_ns + GREATEST(a.unheard_ns, y.repair_ns) AS repair_ns,
        a.clock_within_ns,
        ROW_NUMBER() OVER (
            PARTITION BY a.rec, a.netns, a.sock, a.began_at_ns
            ORDER BY ABS(y.began_at_ns - a.began_at_ns - a.clock_offset_ns), y.began_at_ns
        ) AS n
    FROM asked AS a
    INNER JOIN exchange AS y
        ON y.rec = a.s_rec AND y.netns = a.s_netns AND y.sock = a.s_sock
            AND y.local_port = a.s_port AND y.remote_port = a.s_remote_port
    WHERE y.role = 'server' AND NOT y.open
        -- The server's lies within the client's, as far as the clocks can tell.
        AND y.began_at_ns >= a.began_at_ns + a.clock_offset_ns - a.clock_within_ns - 1000000
        AND y.at_ns <= a.at_ns + a.clock_offset_ns + a.clock_within_ns + 1000000
),
parts AS (
    SELECT *, GREATEST(total_ns - client_ns - server_ns, 0) AS wire_ns FROM matched WHERE n = 1
)
SELECT
    client_host, server_host, server_addr, server_port, client_comm, server_comm, began_at_ns,
    total_ns / 1e6 AS total_ms,
    client_ns / 1e6 AS client_ms,
    wire_ns / 1e6 AS wire_ms,
    server_ns / 1e6 AS server_ms,
    -- What the other end did not read meanwhile is its own.
    LEAST(held_back_ns, wire_ns - LEAST(repair_ns, wire_ns)) / 1e6 AS held_back_ms,
    LEAST(repair_ns, wire_ns) / 1e6 AS repair_ms,
    clock_within_ns
FROM parts
