-- Stretches in which a finding holds, where those are a small part of a recording.
--
-- host | text | Host.
-- rec | text | Recording.
-- finding | id | The finding, as in `findings`.
-- cause | text | Its cause.
-- from_at_ns | ns | Start, since 1970, by the clock of the host.
-- to_at_ns | ns | End.
-- seconds | s | Length.
SELECT
    e.host, e.rec, e.finding, f.cause,
    e.at_ns AS from_at_ns,
    e.ended_at_ns AS to_at_ns,
    (e.ended_at_ns - e.at_ns) / 1e9 AS seconds
FROM episode AS e
INNER JOIN finding AS f ON f.rec = e.rec AND f.finding = e.finding
