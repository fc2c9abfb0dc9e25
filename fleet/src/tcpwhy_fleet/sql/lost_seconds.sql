-- Seconds that connections lost, by cause and host where the fault is; each fault once, whoever tells of it.
--
-- cause | text | The cause.
-- place_host | text | Host where it is.
-- places | count | Places there.
-- lost_s | s | Seconds lost; null when nobody can tell.
SELECT cause, place_host, COUNT(*) AS places, SUM(lost_s) AS lost_s
FROM faults
GROUP BY cause, place_host
