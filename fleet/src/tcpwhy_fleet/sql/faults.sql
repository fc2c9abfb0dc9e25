-- One row per fault: a cause at a place. What both of its ends tell is one, and costs what the end that lost more says.
--
-- cause | text | The cause.
-- place_host | text | Host where it is.
-- place | text | What it is about.
-- hosts | count | Hosts that tell of it.
-- seen_there | yes/no | The host itself tells of it.
-- seen_from_outside | yes/no | Others do.
-- lost_s | s | Seconds lost; null when nobody can tell.
-- affected | count | How many were affected, as the host itself tells, or who lost most.
-- of_all | count | Of how many.
-- counted | text | What was counted.
-- layer | text | Whose trouble it is.
-- confidence | text | The best of those who tell of it: `high`, `medium` or `low`.
-- title | text | What is wrong, as the host itself says, or who lost most.
-- fix | text | What to do.
WITH named AS (
    SELECT
        *,
        -- One end calls it 10.0.0.1:80, the other 0.0.0.0:80: a service of a host is known by its port.
        CASE WHEN place NOT LIKE '%→%' AND REGEXP_REPLACE(place, ':[0-9]+$', '') <> place
            THEN REGEXP_REPLACE(place, '^.*:', ':') ELSE place END AS what
    FROM findings
),
sums AS (
    SELECT
        cause, place_host, what, seen_as,
        SUM(lost_s) AS lost_s
    FROM named
    GROUP BY cause, place_host, what, seen_as
),
best AS (
    SELECT
        *,
        ROW_NUMBER() OVER (
            PARTITION BY cause, place_host, what
            ORDER BY CASE WHEN seen_as = 'there' THEN 0 ELSE 1 END, COALESCE(lost_s, 0) DESC, host, rec, finding
        ) AS n
    FROM named
),
merged AS (
    SELECT
        cause, place_host, what,
        COUNT(DISTINCT host) AS hosts,
        MAX(CASE WHEN seen_as = 'there' THEN 1 ELSE 0 END) AS there,
        MAX(CASE WHEN seen_as <> 'there' THEN 1 ELSE 0 END) AS outside,
        MAX(CASE confidence WHEN 'high' THEN 3 WHEN 'medium' THEN 2 ELSE 1 END) AS confidence
    FROM named
    GROUP BY cause, place_host, what
),
lost AS (
    SELECT cause, place_host, what, MAX(lost_s) AS lost_s FROM sums GROUP BY cause, place_host, what
)
SELECT
    m.cause, m.place_host, b.place, m.hosts,
    m.there = 1 AS seen_there,
    m.outside = 1 AS seen_from_outside,
    l.lost_s, b.affected, b.of_all, b.counted, b.layer,
    CASE m.confidence WHEN 3 THEN 'high' WHEN 2 THEN 'medium' ELSE 'low' END AS confidence,
    b.title, b.fix
FROM merged AS m
INNER JOIN lost AS l ON l.cause = m.cause AND l.place_host = m.place_host AND l.what = m.what
INNER JOIN best AS b ON b.cause = m.cause AND b.place_host = m.place_host AND b.what = m.what AND b.n = 1
