-- One row per direction between a host and an address that it sends to: loss and delay.
--
-- host | text | Host that sends.
-- local_addr | address | Address that it sends from.
-- remote_addr | address | Address that it sends to.
-- remote_host | text | Host that has that address, where one alone has it and was recorded.
-- interface | text | Interface that has the address that it sends from, as in `ends`.
-- remote_interface | text | Interface of remote_host that has the other one.
-- ends | count | Ends of connections.
-- segments_out | segments | Segments with data sent, as far as ends were sampled.
-- retransmitted | segments | Segments retransmitted by those ends.
-- retransmitted_share | 0..1 | The one by the other; null when nothing was sent.
-- spurious | segments | Of those, that the other end reported to have had.
-- syn_retransmits | count | SYNs retransmitted.
-- connects | count | Calls of connect().
-- min_rtt_us | µs | Least round-trip time sampled.
-- rtt_us | µs | Smoothed round-trip time, the average of the ends.
-- bytes_sent | bytes | Bytes sent and acknowledged.
SELECT
    e.host, e.local_addr, e.remote_addr,
    MAX(a.host) AS remote_host,
    MAX(e.interface) AS interface,
    MAX(a.interface) AS remote_interface,
    COUNT(*) AS ends,
    SUM(e.segments_out) AS segments_out,
    SUM(CASE WHEN e.segments_out IS NOT NULL THEN e.retransmitted ELSE 0 END) AS retransmitted,
    SUM(CASE WHEN e.segments_out IS NOT NULL THEN e.retransmitted ELSE 0 END) * 1.0
        / NULLIF(SUM(e.segments_out), 0) AS retransmitted_share,
    SUM(e.spurious) AS spurious,
    SUM(e.syn_retransmits) AS syn_retransmits,
    SUM(CASE WHEN e.connect_at_ns IS NOT NULL THEN 1 ELSE 0 END) AS connects,
    MIN(e.min_rtt_us) AS min_rtt_us,
    AVG(e.rtt_us) AS rtt_us,
    SUM(e.bytes_sent) AS bytes_sent
FROM ends AS e
LEFT JOIN addresses AS a ON a.addr = e.remote_addr
WHERE e.remote_addr NOT LIKE '127.%' AND e.remote_addr <> '::1'
GROUP BY e.host, e.local_addr, e.remote_addr
