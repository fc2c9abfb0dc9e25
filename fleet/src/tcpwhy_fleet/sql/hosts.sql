-- One row per host.
--
-- host | text | Host.
-- recordings | count | Recordings of it.
-- seconds | s | Their length together.
-- started_at_ns | ns | Start of the first, since 1970, by its own clock.
-- ended_at_ns | ns | End of the last.
-- kernel | text | Kernel release; of several the last by name.
-- cpus | count | CPUs online.
-- complete | yes/no | All of them are whole.
-- explained | yes/no | All of them were explained.
-- lost_records | count | Records that its recorder lost.
-- rack | text | Label `rack`.
-- zone | text | Label `zone`.
-- role | text | Label `role`.
SELECT
    host,
    COUNT(*) AS recordings,
    SUM(seconds) AS seconds,
    MIN(started_at_ns) AS started_at_ns,
    MAX(ended_at_ns) AS ended_at_ns,
    MAX(kernel) AS kernel,
    MAX(cpus) AS cpus,
    MIN(CASE WHEN complete THEN 1 ELSE 0 END) = 1 AS complete,
    MIN(CASE WHEN explained THEN 1 ELSE 0 END) = 1 AS explained,
    SUM(lost_records) AS lost_records,
    MAX(rack) AS rack,
    MAX(zone) AS zone,
    MAX(role) AS role
FROM recordings
GROUP BY host
