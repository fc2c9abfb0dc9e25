//! Examples below the help of each verb.

pub const EXPLAIN: &str = "\
Examples:
  sudo tcpwhy explain                         10 s of this host
  sudo tcpwhy explain --port 5432 --for 60s   one service, for a minute
  sudo tcpwhy explain -- curl -s http://x/    while a command runs
  sudo tcpwhy explain -o x.tcpwhy             and keep the recording
  tcpwhy explain x.tcpwhy --full              read it anywhere, with all the evidence";
pub const COMPARE: &str = "\
Examples:
  tcpwhy compare fast.tcpwhy slow.tcpwhy      what one has and the other lacks
  tcpwhy compare run-*.tcpwhy                 modes, what separates slow from fast, trends";
pub const RECORD: &str = "\
Examples:
  sudo tcpwhy record -o x.tcpwhy --for 60s    a minute of this host
  sudo tcpwhy record -o x.tcpwhy -- ./load    while a command runs
  sudo tcpwhy record --with explain           all that explain needs";
pub const SERVE: &str = "\
Examples:
  sudo tcpwhy serve --store /var/lib/tcpwhy   a week of this host, 4 GiB at most
  sudo tcpwhy explain --at 03:07              why it was slow in the five minutes up to 03:07
  sudo tcpwhy report --last 30m -o x.html     the last half hour as a page";
pub const FINDINGS: &str = "\
Examples:
  sudo tcpwhy findings                        what holds, and what held in the last day
  sudo tcpwhy findings --since \"yesterday 03:07\"";
pub const TRACE: &str = "\
Examples:
  sudo tcpwhy trace retransmits               each as it happens
  sudo tcpwhy trace wakeups 100ms             sleeps of 100 ms or more, and what woke them
  tcpwhy trace timeline --from x.tcpwhy --port 40061   everything about one connection";
pub const STAT: &str = "\
Examples:
  sudo tcpwhy stat sockets                    like ss -ti, with owners and namespaces
  sudo tcpwhy stat use                        the USE checklist
  tcpwhy stat counters --from x.tcpwhy        what rose, second by second";
pub const TOP: &str = "\
Examples:
  sudo tcpwhy top                             this host
  sudo tcpwhy top --netns web                 one namespace
  tcpwhy top x.tcpwhy                         replay a recording";
pub const REPORT: &str = "\
Examples:
  tcpwhy report x.tcpwhy -o x.html            one page
  tcpwhy report fast.tcpwhy slow.tcpwhy -o x.html   and what differs";
pub const FLAME: &str = "\
Examples:
  tcpwhy flame x.tcpwhy -o x.svg              where CPU time went
  tcpwhy flame slow.tcpwhy --diff fast.tcpwhy   what grew
  tcpwhy flame x.tcpwhy --off-cpu             what threads waited for";
