//! Limits for paths: loss, drops on this host, standing queues, outages.

use super::{KIB, MS, S, limits};

limits! {
    LOSS = "Loss";
    /// From this loss on, loss governs the rate of a path with a round trip of 10 ms or more (Mathis: 40 segments in
    /// flight).
    LOSS_GOVERNS = 0.001, Share, Mechanism;
    /// At least this share of the losses must have met an empty queue for the path to be at fault. Any bottleneck
    /// causes the others.
    LOST_BY_EMPTY_QUEUE = 0.7, Share, Guess;
    /// The constant of Mathis' formula for a receiver that acknowledges each segment: rate = this × MSS ÷ (RTT × √p).
    MATHIS = 1.22, Times, Rfc;
    /// The constant of CUBIC's formula for long round trips and rare losses: 1.054 × (RTT ÷ p)^¾ segments in flight
    /// (RFC 9438, 5.1).
    CUBIC = 1.054, Times, Rfc;
    /// From this loss on, cwnd grows to at most eight segments before a loss (p = 8 ÷ 3w², Mathis et al. 1997) and is
    /// halved to four. Below four, three duplicate ACKs cannot report a loss and the RTO must.
    WINDOW_OF_EIGHT = 8.0 / (3.0 * 8.0 * 8.0), Share, Mechanism;
    /// If short connections retransmit a smaller share than this, the segments may have been late rather than lost. A
    /// share of the SYNs ([`SHORT_LOST_SYNS`]) suffices as well.
    SHORT_LOST_SHARE = 0.01, Share, Guess;
    /// This share of retransmitted SYNs suffices instead of [`SHORT_LOST_SHARE`]. A SYN's timer waits for a second, so
    /// the SYN or its answer was lost.
    SHORT_LOST_SYNS = 0.005, Share, Guess;
    /// A connection that sends this much or more is a transfer, about which samples tell more, and does not count as
    /// short.
    SHORT_BYTES = 64 * KIB, Bytes, Guess;
    /// The recording is divided into this many parts. Short connections must suffer losses in at least half of the
    /// parts that have connections.
    PARTS = 10, Count, Guess;
    /// The queue counts as empty while the round trip is at most this many times the shortest one, plus
    /// [`EMPTY_QUEUE_DELAY`].
    EMPTY_QUEUE_TIMES = 1.25, Times, Guess;
    /// The queue counts as empty while the round trip exceeds [`EMPTY_QUEUE_TIMES`] of the shortest one by at most
    /// this. On short paths this term dominates.
    EMPTY_QUEUE_DELAY = MS, Time, Guess;
    /// A retransmission timer shorter than this is a tail loss probe that works as intended, two round trips after the
    /// loss.
    TAIL_TIMER = 100 * MS, Time, Mechanism;
    /// A wait that a retransmission timer ended lasted at least this share of the timer. It began with the message or
    /// soon after.
    TAIL_OF_TIMER = 0.9, Share, Mechanism;
    /// A wait that a retransmission timer ended exceeds [`TAIL_OF_TIMER`] by at most this share of the timer: two round
    /// trips of a probe and a tick of the kernel's clock.
    TAIL_SPREAD = 0.4, Share, Mechanism;
    /// Connections to other ports exonerate the path only if at least this many of them would have suffered from it. By
    /// chance, hardly ever do fewer than a quarter of those suffer ([`OTHERS_FEWER`]).
    OTHERS_WOULD = 10, Connections, Sampling;
    /// If the connections to other ports suffer less than expected by at least this factor, the path is not at fault.
    OTHERS_FEWER = 4, Times, Sampling;
}

limits! {
    DROPS = "Drops on this host";
    /// If the drop counter includes unwanted frames (unknown protocols), TCP must show at least this share of it as out
    /// of order or retransmitted. Each gap has several segments behind it.
    MISSED_ALL = 1, Share, Mechanism;
    /// If a queueing discipline drops a smaller share of the packets than this, it works as intended. Active queue
    /// management (fq_codel) drops to slow senders down: with a few hundred segments in flight, 1 in 1,000 or fewer.
    QDISC_SHARE = 0.003, Share, Mechanism;
}

limits! {
    QUEUES = "Queues and outages";
    /// A queue must add at least this delay to count as deep. A request of three round trips, as a new connection with
    /// a little data needs, is then late by 100 ms, which people notice.
    QUEUE_DELAY = 33 * MS, Time, People;
    /// If the transfers have no other traffic beside them that waits, only a queue with at least this delay is
    /// reported. Anything that joins would wait.
    QUEUE_DELAY_ALONE = 100 * MS, Time, People;
    /// The round trip must be at least this many times the shortest one for the queue to count as deep. A bottleneck
    /// needs a queue of at most one path RTT, which doubles the round trip; here the queue is half as long again.
    QUEUE_TIMES = 2.5, Times, Mechanism;
    /// If all transfers use BBR, a deep queue means at least this many times the shortest round trip. BBR keeps up to
    /// five path RTTs in flight when several start together, however deep the buffer is; more is not its own doing.
    QUEUE_TIMES_BBR = 6, Times, Mechanism;
    /// If more than this share is lost while the queue is not full, the loss limits the transfers rather than the
    /// queue.
    QUEUE_LOSS = 0.01, Share, Guess;
    /// Traffic in the same queue has at least this share of the transfers' round trip, which is smoothed and sampled
    /// once a second. On an empty path it would be two fifths or less.
    QUEUE_ALIKE = 0.5, Share, Mechanism;
    /// The number of timeouts may differ by this from what backoff and elapsed time give (n doublings take 2ⁿ - 1
    /// RTOs). Jitter, a first RTO from the handshake or an earlier probe shifts it by one.
    TIMEOUTS_OFF = 1, Events, Mechanism;
    /// On paths of less than 200 ms, a segment's first retransmission timeout comes at most this long after it was
    /// sent.
    FIRST_RTO = S, Time, Kernel;
    /// A connection was idle if the first timeout of the data that hangs came at least this long after the peer was
    /// last heard. That is longer than the first RTO ([`FIRST_RTO`]).
    IDLE_BEFORE = 1_500 * MS, Time, Mechanism;
    /// At least this many retransmissions must fail although other segments passed before them. When an outage is over,
    /// a single timeout may still follow, and it succeeds: one that nothing answers for [`FIRST_RTO`] counts twice.
    FAILED_BESIDE = 2, Events, Mechanism;
    /// For a connection that already hung when the recording began, this many failed retransmissions suffice: its
    /// backed-off timer shows that earlier ones failed too.
    FAILED_BESIDE_OLDER = 1, Events, Mechanism;
    /// If only one connection hangs, it needs at least this many failed retransmissions in a row, one more than usual.
    /// Then only the segment size remains as a reason.
    FAILED_ALONE = 4, Events, Mechanism;
}
