-- One row per service and host: what listens, or is connected to; its exchanges and where their time went.
--
-- host | text | Host.
-- rec | text | Recording.
-- netns | id | Network namespace.
-- role | text | `server` or `client`.
-- addr | address | Local address of a server; where a client connects to.
-- port | id | Port of the server.
-- exchanges | count | Exchanges that ended.
-- overlapped | count | Of those, such that a message began before the answer to the one before had ended.
-- unanswered | count | Connections that closed before the answer.
-- total_ms | ms | Time of all exchanges.
-- application_ms | ms | Of that, the application here: accepting, reading, thinking.
-- awaiting_ms | ms | A client awaited the answer: network and peer.
-- receiving_ms | ms | More of a message was on its way.
-- sending_ms | ms | Windows and buffers held data back.
-- repair_ms | ms | Until what was sent was retransmitted.
-- p50_ms | ms | Half took no longer, to an eighth of a power of two; null when exchanges overlap.
-- p99_ms | ms | 99 in 100 took no longer.
WITH times AS (
    SELECT rec, netns, role, addr, port, at_least_ns, below_ns, SUM("count") AS n
    FROM request_time
    WHERE what = 'response'
    GROUP BY rec, netns, role, addr, port, at_least_ns, below_ns
),
running AS (
    SELECT
        rec, netns, role, addr, port, COALESCE(below_ns, at_least_ns) AS below_ns,
        SUM(n) OVER (PARTITION BY rec, netns, role, addr, port ORDER BY at_least_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far,
        SUM(n) OVER (PARTITION BY rec, netns, role, addr, port) AS of_all
    FROM times
),
percentiles AS (
    SELECT
        rec, netns, role, addr, port,
        MIN(CASE WHEN so_far >= of_all * 0.5 THEN below_ns END) / 1e6 AS p50_ms,
        MIN(CASE WHEN so_far >= of_all * 0.99 THEN below_ns END) / 1e6 AS p99_ms
    FROM running
    GROUP BY rec, netns, role, addr, port
),
sums AS (
    SELECT
        host, rec, netns, role, addr, port,
        -- Whatever a host claims: what is beyond is not multiplied beyond 64 bits.
        CAST(LEAST(SUM(exchanges), 100000000000000000) AS BIGINT) AS exchanges,
        CAST(LEAST(SUM(overlapped), 100000000000000000) AS BIGINT) AS overlapped,
        CAST(LEAST(SUM(unanswered), 100000000000000000) AS BIGINT) AS unanswered,
        SUM(accept_ns + unread_ns + think_ns) / 1e6 AS application_ms,
        SUM(await_ns) / 1e6 AS awaiting_ms,
        SUM(receive_ns) / 1e6 AS receiving_ms,
        SUM(send_ns) / 1e6 AS sending_ms,
        SUM(repair_ns + unheard_ns) / 1e6 AS repair_ms
    FROM request
    GROUP BY host, rec, netns, role, addr, port
)
SELECT
    s.host, s.rec, s.netns, s.role, s.addr, s.port, s.exchanges, s.overlapped, s.unanswered,
    s.application_ms + s.awaiting_ms + s.receiving_ms + s.sending_ms + s.repair_ms AS total_ms,
    s.application_ms, s.awaiting_ms, s.receiving_ms, s.sending_ms, s.repair_ms,
    CASE WHEN s.overlapped * 20 <= s.exchanges THEN p.p50_ms END AS p50_ms,
    CASE WHEN s.overlapped * 20 <= s.exchanges THEN p.p99_ms END AS p99_ms
FROM sums AS s
LEFT JOIN percentiles AS p
    ON p.rec = s.rec AND p.netns = s.netns AND p.role = s.role AND p.addr = s.addr AND p.port = s.port
