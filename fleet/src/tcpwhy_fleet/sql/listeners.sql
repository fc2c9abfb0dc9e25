-- One row per listening socket and recording.
--
-- host | text | Host.
-- rec | text | Recording.
-- netns | id | Network namespace.
-- sock | id | The socket.
-- local_addr | address | Address listened on.
-- local_port | id | Port listened on.
-- backlog | count | Least limit of its accept queue.
-- most_waiting | count | Most connections that waited for accept().
-- most_half_open | count | Most handshakes that were not complete.
-- drops | count | Packets dropped at it while it was recorded.
-- flooded | yes/no | The kernel has logged "Possible SYN flooding" for it.
SELECT
    host,
    rec,
    netns,
    sock,
    local_addr,
    local_port,
    MIN(backlog) AS backlog,
    MAX(accept_queue) AS most_waiting,
    MAX(syn_queue) AS most_half_open,
    MAX(drops) - MIN(drops) AS drops,
    MAX(CASE WHEN synflood_warned THEN 1 ELSE 0 END) = 1 AS flooded
FROM listener
GROUP BY host, rec, netns, sock, local_addr, local_port
