-- How far the clocks of two hosts are apart, from the connections between them. What a host sees after its packet
-- was seen elsewhere bounds the difference from one side: the ACK of a handshake comes after the connecting end was
-- established, and who closed last is closed after who closed first. Where connections go one way only, the shortest
-- handshake bounds it from the other side: its ACK took no longer than a round trip, and was not lost. Kept: computed
-- once.
--
-- host_a | text | A host; the first of the two by name.
-- host_b | text | The other one.
-- offset_ns | ns | Clock of host_b less that of host_a: the middle of the interval.
-- least_ns | ns | No less than this.
-- most_ns | ns | No more than this.
-- connections | count | Connections that bound it.
-- bounded_by | text | `both directions` when packets bound it from both sides, `round trip` when one side may rest on the shortest handshake.
-- consistent | yes/no | The bounds agree; else a clock was set meanwhile, or runs at another rate.
WITH directed AS (
    SELECT
        c_host, s_host,
        COUNT(*) AS connections,
        -- What comes to the accepted end after the connecting one did something.
        MIN(LEAST(
            COALESCE(established_ns, 9223372036854775807),
            CASE WHEN c_closed_first AND NOT s_closed_first THEN COALESCE(closed_ns, 9223372036854775807)
                ELSE 9223372036854775807 END
        )) AS most_ns,
        MAX(CASE WHEN s_closed_first AND NOT c_closed_first THEN closed_ns END) AS least_ns,
        MIN(established_ns) AS least_established_ns,
        MIN(round_trip_ns) AS round_trip_ns
    FROM pair_candidates
    WHERE c_host <> s_host AND (matched_by = 'isn' OR c_choices = 1 AND s_choices = 1)
        AND (established_ns IS NOT NULL OR closed_ns IS NOT NULL)
    GROUP BY c_host, s_host
),
bounds AS (
    SELECT
        c_host AS host_a, s_host AS host_b, connections,
        CASE WHEN least_established_ns IS NOT NULL THEN 1 ELSE 0 END AS there, 0 AS back,
        CASE WHEN most_ns < 9223372036854775807 THEN most_ns END AS most_ns,
        least_ns,
        least_established_ns - round_trip_ns AS by_round_trip,
        CAST(NULL AS BIGINT) AS most_by_round_trip
    FROM directed
    WHERE c_host < s_host
    UNION ALL
    SELECT
        s_host, c_host, connections,
        0, CASE WHEN least_established_ns IS NOT NULL THEN 1 ELSE 0 END,
        -least_ns,
        CASE WHEN most_ns < 9223372036854775807 THEN -most_ns END,
        CAST(NULL AS BIGINT),
        round_trip_ns - least_established_ns
    FROM directed
    WHERE c_host > s_host
),
both_ways AS (
    SELECT
        host_a, host_b,
        SUM(connections) AS connections,
        MAX(there) + MAX(back) AS ways,
        MIN(most_ns) AS most_seen, MAX(least_ns) AS least_seen,
        MIN(most_by_round_trip) AS most_assumed, MAX(by_round_trip) AS least_assumed
    FROM bounds
    GROUP BY host_a, host_b
),
-- Handshakes both ways need no assumption, and one that what was seen contradicts is none: each ACK was lost.
assumed AS (
    SELECT
        host_a, host_b, connections, least_seen, most_seen,
        CASE WHEN ways < 2 AND (most_seen IS NULL OR least_assumed <= most_seen) THEN least_assumed END
            AS least_assumed,
        CASE WHEN ways < 2 AND (least_seen IS NULL OR most_assumed >= least_seen) THEN most_assumed END
            AS most_assumed
    FROM both_ways
),
told AS (
    SELECT
        host_a, host_b, connections,
        CASE WHEN least_seen IS NOT NULL AND least_assumed IS NOT NULL THEN GREATEST(least_seen, least_assumed)
            ELSE COALESCE(least_seen, least_assumed) END AS least_ns,
        CASE WHEN most_seen IS NOT NULL AND most_assumed IS NOT NULL THEN LEAST(most_seen, most_assumed)
            ELSE COALESCE(most_seen, most_assumed) END AS most_ns,
        CASE WHEN least_seen < least_assumed OR most_seen > most_assumed OR least_seen IS NULL OR most_seen IS NULL
            THEN 'round trip' ELSE 'both directions' END AS bounded_by
    FROM assumed
)
SELECT
    host_a, host_b,
    CAST(FLOOR((least_ns + most_ns) / 2) AS BIGINT) AS offset_ns,
    LEAST(least_ns, most_ns) AS least_ns,
    GREATEST(least_ns, most_ns) AS most_ns,
    CAST(connections AS BIGINT) AS connections,
    bounded_by,
    least_ns <= most_ns AS consistent
FROM told
WHERE least_ns IS NOT NULL AND most_ns IS NOT NULL
