-- One row per recording that is used; what is left out, and why, is in the table left_out.
--
-- rec | text | Id of the recording, in every table.
-- host | text | Host, as every table names it: the address that `collect` had it from, else its name; hosts of one name are told apart.
-- name | text | Host name as the recording has it.
-- kernel | text | Kernel release.
-- machine | text | Machine (`uname -m`).
-- cpus | count | CPUs online.
-- producer | text | `live`, or the model that computed it.
-- started_at_ns | ns | Start, since 1970, by the clock of the host.
-- ended_at_ns | ns | End.
-- seconds | s | Length.
-- complete | yes/no | The recorder ended it itself, and it came whole.
-- explained | yes/no | `tcpwhy explain --write` has written what it found.
-- lost_records | count | Records that the recorder lost.
-- rack | text | Label `rack`; null without one, as for the next two.
-- zone | text | Label `zone`.
-- role | text | Label `role`.
-- path | text | File or directory that it was given as.
WITH labels AS (
    SELECT
        rec,
        MAX(CASE WHEN key = 'rack' THEN value END) AS rack,
        MAX(CASE WHEN key = 'zone' THEN value END) AS zone,
        MAX(CASE WHEN key = 'role' THEN value END) AS role
    FROM label
    GROUP BY rec
)
SELECT
    r.rec,
    r.host,
    r.name,
    r.kernel,
    r.machine,
    r.cpus,
    r.producer,
    r.started_at_ns,
    r.ended_at_ns,
    (r.ended_at_ns - r.started_at_ns) / 1e9 AS seconds,
    r.complete,
    r.explained,
    r.lost_records,
    l.rack,
    l.zone,
    l.role,
    r.path
FROM recording AS r
LEFT JOIN labels AS l ON l.rec = r.rec
