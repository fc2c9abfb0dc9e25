-- Which host has which address, as far as ends and listeners tell; those that name no host alone are left out:
-- loopback, unspecified, and what several hosts have, such as a bridge for containers.
--
-- addr | address | The address.
-- host | text | The host that has it.
-- interface | text | The interface that has it there; null when several have it, or it was not recorded.
WITH had AS (
    -- Not from ends, which reads all columns of both.
    SELECT DISTINCT local_addr AS addr, host FROM event WHERE kind IN ('state', 'retransmit') AND local_port <> 0
    UNION
    SELECT DISTINCT local_addr AS addr, host FROM socket
    UNION
    SELECT DISTINCT local_addr AS addr, host FROM listener
),
named AS (
    SELECT addr, MAX(host) AS host
    FROM had
    WHERE addr NOT LIKE '127.%' AND addr NOT IN ('::1', '::', '0.0.0.0')
    GROUP BY addr
    HAVING COUNT(DISTINCT host) = 1
),
-- Of a host in all its recordings.
of_host AS (
    SELECT host, addr, MAX(interface) AS interface
    FROM interfaces
    GROUP BY host, addr
    HAVING COUNT(DISTINCT interface) = 1
)
SELECT n.addr, n.host, i.interface
FROM named AS n
LEFT JOIN of_host AS i ON i.host = n.host AND i.addr = n.addr
