-- One row per finding of explain, with the place that the fleet knows it by.
--
-- host | text | Host.
-- rec | text | Recording.
-- finding | id | Its place in the order of explain there: 1 cost most.
-- since_at_ns | ns | Since when, since 1970, by the clock of the host.
-- cause | text | The cause.
-- layer | text | Whose trouble it is: `application`, `this-host`, `network` or `peer`.
-- title | text | What is wrong.
-- fix | text | What to do.
-- confidence | text | `high`, `medium` or `low`.
-- place | text | What it is about, as the host names it.
-- place_host | text | Host that has the address of the place: that of the finding where the place names none.
-- seen_as | text | `there` when that is the host itself, `from outside` when its other end was recorded.
-- comm | text | Command name of the process to look at.
-- backlog | count | Limit of the accept queue, where a listener is concerned.
-- affected | count | How many were affected.
-- of_all | count | Of how many.
-- counted | text | What was counted.
-- lost_s | s | Time that connections lost to it; null when nobody can tell.
-- says | text | Its impact in one sentence.
WITH placed AS (
    SELECT
        *,
        CASE WHEN listener <> '' THEN listener ELSE COALESCE(resource, '') END AS place,
        -- `10.0.0.1:80`, `[2001:db8::1]:80`, `10.0.0.1 → 10.0.0.2`: the last address is where it goes.
        TRIM(REPLACE(REPLACE(REGEXP_REPLACE(REGEXP_REPLACE(
            CASE WHEN listener <> '' THEN listener ELSE COALESCE(resource, '') END,
            '^.*→', ''), ':[0-9]+$', ''), '[', ''), ']', '')) AS addr
    FROM finding
)
SELECT
    p.host, p.rec, p.finding, p.at_ns AS since_at_ns, p.cause, p.layer, p.title, p.fix, p.confidence, p.place,
    COALESCE(a.host, p.host) AS place_host,
    CASE WHEN a.host IS NULL OR a.host = p.host THEN 'there' ELSE 'from outside' END AS seen_as,
    p.comm, p.backlog, p.affected, p."of" AS of_all, p.counted,
    p.lost_ns / 1e9 AS lost_s,
    p.says
FROM placed AS p
LEFT JOIN addresses AS a ON a.addr = p.addr
