//! Numbers of paths: loss, drops on this host, standing queues, outages.

use super::{KIB, MS, S, limits};

limits! {
    LOSS = "Loss";
    /// From here on, loss governs the rate of a path of 10 ms or more (Mathis: 40 segments in flight).
    LOSS_GOVERNS = 0.001, Share, Mechanism;
    /// Fewer losses in a recording of seconds are what any path does.
    PATH_LOST = 20, Segments, Guess;
    /// Of the losses that must have met an empty queue; the others were of any bottleneck.
    LOST_BY_EMPTY_QUEUE = 0.7, Share, Guess;
    /// Mathis' constant, for a receiver that acknowledges each segment.
    MATHIS = 1.22, Times, Rfc;
    /// Cubic keeps more in flight than the formula, which is Reno's; and p is measured.
    MATHIS_TOLERANCE = 1.6, Times, Guess;
    /// Where round trips are long and losses rare cubic keeps 1.054 × (RTT ÷ p)^¾ segments in flight (RFC 9438, 5.1).
    CUBIC = 1.054, Times, Rfc;
    /// A window that was halved so often is one that losses govern, and no longer that of slow start.
    HALVED = 8, Events, Guess;
    /// From here on a window grows to eight segments at the most before it loses one (p = 8 ÷ 3w², Mathis et al. 1997),
    /// and is then halved to four: of fewer three cannot report a loss as duplicate ACKs, and a timer has to.
    WINDOW_OF_EIGHT = 8.0 / (3.0 * 8.0 * 8.0), Share, Mechanism;
    /// Of what other ports lose, one port loses so many times as much: a queue that is full takes from all that send as
    /// much about the same share.
    PORT_LOSES_TIMES = 4, Times, Guess;
    /// What short connections retransmit is not always lost: below this share it may have been late.
    SHORT_LOST_SHARE = 0.01, Share, Guess;
    /// A SYN's timer waits for a second: what it retransmits was lost, or its answer was.
    SHORT_LOST_SYNS = 0.005, Share, Guess;
    /// SYNs and data must have been lost, so often each.
    SHORT_LOST_EACH = 5, Segments, Guess;
    /// A path that loses packets of any kind loses SYNs and data alike, within this factor: a SYN is also retransmitted
    /// when its answer was lost, and of data that an ACK covers it is not.
    SHORT_LOST_ALIKE = 4, Times, Guess;
    /// What sends more is a transfer, which samples tell more of.
    SHORT_BYTES = 64 * KIB, Bytes, Guess;
    /// Parts of the recording, of which half must have losses.
    PARTS = 10, Count, Guess;
    /// And more of them than these.
    LOSSY_PARTS = 2, Count, Guess;
    /// Of what short connections lost, this host may have dropped so much.
    LOST_HERE = 0.1, Share, Guess;
    /// A round trip up to this much beyond the shortest means that no queue stood.
    EMPTY_QUEUE_TIMES = 1.25, Times, Guess;
    /// And so much longer, on paths that are short.
    EMPTY_QUEUE_DELAY = MS, Time, Guess;
    /// Fewer segments than this say nothing about a path.
    PATH_SEGMENTS = 10, Segments, Guess;
    /// A short connection that sent so many segments' worth in one go had full ones among them.
    FULL_SEGMENTS = 8, Segments, Guess;
    /// As it counts as short: it cannot have sent that in small pieces, one after the other.
    SHORT_LIVED = S, Time, Guess;
    /// Of what was retransmitted, the share that had to wait for a timer from which on it was messages that lost their
    /// last segment: in a transfer it is one in ten or fewer.
    TAILS = 0.5, Share, Guess;
    /// Fewer messages that waited for a timer are an accident: in a recording of seconds each made somebody wait.
    TAILS_WAITED = 10, Events, Guess;
    /// Of what a timer retransmitted, the receiver had this many times as much as was lost, at most: what is lost on
    /// the way back makes a duplicate each, and one way may lose more than the other. Where a CPU was late, all are.
    TAILS_TWICE = 4, Times, Guess;
    /// A timer sooner than that is a probe that two round trips after the loss does its job.
    TAIL_TIMER = 100 * MS, Time, Mechanism;
    /// Of a timer's time that a wait lasts which it ended: it began with the message, or soon after.
    TAIL_OF_TIMER = 0.9, Share, Mechanism;
    /// It lasts no longer than so much more of it: two round trips of a probe, and a tick of the kernel's clock.
    TAIL_SPREAD = 0.4, Share, Mechanism;
    /// Where a timer makes messages late, so many times as many are as late as that, at least, as are somewhat later.
    TAIL_GATHERED = 3, Times, Guess;
    /// Fewer spurious retransmissions in a recording of seconds are a route that changed.
    REORDERED = 20, Segments, Guess;
    /// Of what was retransmitted the receiver had at least this share already.
    REORDERED_SHARE = 0.5, Share, Guess;
    /// So many connections to other ports would have suffered as well, were it the path: by chance, hardly fewer than a
    /// quarter of them do ([`OTHERS_FEWER`]).
    OTHERS_WOULD = 10, Connections, Sampling;
    /// So many times fewer did: it is not the path.
    OTHERS_FEWER = 4, Times, Sampling;
}

limits! {
    DROPS = "Drops on this host";
    /// Fewer drops are what any host does when a load begins.
    HOST_DROPS = 20, Packets, Guess;
    /// TCP missed what was lost where it shows at least so many in a hundred: segments out of order behind a gap, or
    /// what was retransmitted. Of other protocols, or of what nobody wanted, it shows none.
    MISSED = 0.1, Share, Guess;
    /// Where the kernel counts as dropped also what nobody wants (frames of protocols that it does not speak), as many:
    /// behind each gap come several segments.
    MISSED_ALL = 1, Share, Guess;
    /// What TCP misses it misses of what crosses its interfaces: one that carries less than this, of what the busiest
    /// one does, may as well have dropped what nobody wanted.
    CARRIES = 0.5, Share, Guess;
    /// Fewer drops of a queueing discipline are a burst at a start.
    QDISC_DROPS = 20, Packets, Guess;
    /// Dropping is how an active queue (fq_codel) tells senders to slow down: with a few hundred segments in flight, 1
    /// in 1,000 or fewer.
    QDISC_SHARE = 0.003, Share, Mechanism;
    /// A device sent at least this share of what is acknowledged of those that left by it: rates are of samples taken
    /// at different moments.
    QDISC_CARRIED = 0.5, Share, Guess;
}

limits! {
    QUEUES = "Queues and outages";
    /// A request of three round trips, as a new connection with a little data needs, is then late by 100 ms, which
    /// people notice.
    QUEUE_DELAY = 33 * MS, Time, People;
    /// Where nobody waits beside the transfers, a standing queue is told from here on: whoever comes would.
    QUEUE_DELAY_ALONE = 100 * MS, Time, People;
    /// A bottleneck needs a queue as long as the path at most, which doubles the shortest round trip: so many times it
    /// is half as much again.
    QUEUE_TIMES = 2.5, Times, Mechanism;
    /// BBR keeps up to five round trips of the path in flight where several start together, however deep the buffer is:
    /// a round trip of more is not its own doing.
    QUEUE_TIMES_BBR = 6, Times, Mechanism;
    /// More loss than this that did not find the queue full, and it is the loss that limits.
    QUEUE_LOSS = 0.01, Share, Guess;
    /// A larger share of the time spent waiting for the window, and the reader limits.
    QUEUE_RWND = 0.3, Share, Guess;
    /// What waits in the same queue has at least this share of the transfers' round trip: smoothed, and sampled once a
    /// second. On an empty path it would be two fifths or less.
    QUEUE_ALIKE = 0.5, Share, Mechanism;
    /// Of the connections that stood, the share that hangs in an outage of the path; of random loss one in thousands
    /// hangs so.
    OUTAGE_SHARE = 0.8, Share, Guess;
    /// A timer that is backed off n times has waited 2ⁿ - 1 times; the kernel's jitter, a first timer that was still of
    /// the handshake, and a probe before it shift that by one.
    TIMEOUTS_OFF = 1, Events, Mechanism;
    /// Sockets that fell silent within this time did for one reason: each sends at its own pace.
    SILENT_AT_ONCE = S, Time, Guess;
    /// The first timeout of a segment comes after so long at most, on paths of less than 200 ms.
    FIRST_RTO = S, Time, Kernel;
    /// Quiet for so long before what hangs was sent, beyond its first RTO, a connection was idle.
    IDLE_BEFORE = 1_500 * MS, Time, Mechanism;
    /// Timeouts that must have failed although something else had passed before them: of an outage that is over one may
    /// come at the end, and succeeds.
    FAILED_BESIDE = 2, Events, Mechanism;
    /// Of a connection that hung when the recording began, with its timer backed off: one is enough, as those before it
    /// failed as well.
    FAILED_BESIDE_OLDER = 1, Events, Mechanism;
    /// With one connection alone: one timeout more, for which nothing but size is left as a reason.
    FAILED_ALONE = 4, Events, Mechanism;
}
