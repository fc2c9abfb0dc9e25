-- Counters of nstat over each recording: those that moved.
--
-- host | text | Host.
-- rec | text | Recording.
-- netns | id | Network namespace.
-- counter | text | Group and name: `TcpExt.ListenDrops`.
-- increase | count | How much it rose while it was recorded.
-- per_second | count/s | The same by the length of the recording.
SELECT
    c.host,
    c.rec,
    c.netns,
    CONCAT(c."group", '.', c.name) AS counter,
    SUM(c.delta) AS increase,
    SUM(c.delta) / MAX(r.seconds) AS per_second
FROM counter AS c
INNER JOIN recordings AS r ON r.rec = c.rec
WHERE r.seconds > 0
GROUP BY c.host, c.rec, c.netns, c."group", c.name
HAVING SUM(c.delta) <> 0
