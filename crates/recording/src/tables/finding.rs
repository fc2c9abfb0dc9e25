//! What explain said of the recording, written into it by `explain --write`: so that one query asks over many.

use crate::Text;
use crate::table::table;

table! {
    /// A cause that holds, as `explain --write` told it. A recording that nobody has explained that way has none; one that was has rows in `answer`.
    Finding = "finding" {
        /// Since when it holds; the start of the recording where that is not known, or it was there before.
        time_ns: u64, Ns;
        /// Its place in the order of explain: 1 cost the most time.
        finding: u32, Id;
        /// The cause.
        cause: Text, Name;
        /// Whose trouble it is: `application`, `this-host`, `network` or `peer`.
        layer: Text, Name;
        /// One sentence: what is wrong.
        title: Text, Note;
        /// One sentence: what to do.
        fix: Text, Note;
        /// How sure explain is: `high`, `medium` or `low`.
        confidence: Text, Name;
        /// Network namespace it was seen in; 0 for the whole host.
        netns: u32, Id;
        /// Address and port that are listened on, or connected to; empty when it is about something else.
        listener: Text, Note;
        /// What else it is about: `CPU 1`, `eth0 (tbf)`, `10.0.0.1 → 10.0.0.2`.
        resource: Option<Text>, Note, null "it is about `listener`";
        /// Whose process `pid` is: `listener`, or `client` when only that side is on this host.
        role: Text, Name;
        /// The process to look at.
        pid: Option<u32>, Id, null "no process is known, or none is concerned";
        /// Its command name.
        comm: Option<Text>, Program, null "as for pid";
        /// Limit given to listen(), after net.core.somaxconn.
        backlog: Option<u32>, Count, null "not known, or no listener is concerned";
        /// How many were affected.
        affected: u64, Count;
        /// Of how many.
        of: u64, Count;
        /// What was counted: `connections`, `SYNs`, `packets`.
        counted: Text, Name;
        /// Time that connections lost to it, all ends on this host together.
        lost_ns: Option<u64>, Ns, null "there is nothing to measure it against";
        /// Its impact in one sentence.
        says: Text, Note;
        /// Some of the rows that it rests on, as `show` takes them, with blanks between.
        rows: Text, Name;
    }
}

table! {
    /// A stretch in which a finding holds, where that is a small part of the recording; a finding that holds in all of it has none.
    Episode = "episode" {
        /// Its start.
        time_ns: u64, Ns;
        /// The finding, as in `finding`.
        finding: u32, Id;
        /// Its end.
        ended_ns: u64, Ns;
    }
}

table! {
    /// What each cause answered: one row per cause that explain knows.
    Answer = "answer" {
        /// Start of the recording.
        time_ns: u64, Ns;
        /// The cause.
        cause: Text, Name;
        /// `found`, `ruled-out` or `cannot-tell`.
        answer: Text, Name;
        /// By which number it is ruled out, why it cannot tell, or why none of what was found is shown.
        because: Option<Text>, Note, null "there is nothing to say";
    }
}
