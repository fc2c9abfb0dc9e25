// The findings of the invented page, and the name that it gives to processes.
import type { Run, StepKind } from "../src/page";

/** What a host may call itself; nothing of it may be taken for HTML. */
export const HOSTILE = "<img src=x onerror=alert(1)>";

export function overflow(): Run["findings"][number] {
  const steps: [StepKind, string, [string, string][], string[]][] = [
    [
      "connection",
      "89 clients got no answer to the first SYN and sent 225 SYNs more; 28 clients connected to a server that had dropped the last ACK; 89 clients waited 1.02 s in the median, the others 5.04 µs.",
      [
        ["clients", "89"],
        ["median wait", "1.02 s"],
      ],
      ["event:1041", "event:1042"],
    ],
    [
      "segment",
      "225 SYNs were retransmitted, 1.02 s, 3.07 s and 7.16 s after the first: the kernel's schedule.",
      [["SYNs", "225"]],
      ["event:1042"],
    ],
    [
      "refusal",
      "366 packets were dropped because an accept queue was full.",
      [["ListenOverflows", "366"]],
      ["event:1041"],
    ],
    [
      "counter",
      "ListenOverflows rose by 366, ListenDrops by 366; this listener's own count by 377.",
      [
        ["ListenDrops", "366"],
        ["own drops", "377"],
      ],
      ["event:1041", "nowhere:9"],
    ],
    [
      "limit",
      "Up to 6 connections waited for accept(); the backlog that nginx passed to listen() is 5.",
      [
        ["waiting", "6"],
        ["backlog", "5"],
      ],
      ["listener:12"],
    ],
    [
      "time",
      `${HOSTILE} (pid 30340): stopped (state T) in 3 of 12 samples, 9 % of one CPU.`,
      [["stopped", "3 of 12 samples"]],
      [],
    ],
  ];
  return {
    cause: "accept-queue-overflow",
    number: "C04",
    layer: "APPLICATION",
    impact: "89 of 49,739 clients (0.2 %) waited 1.02 s longer in the median, 8.45 s at p99.",
    lost: "91 s waited in total",
    spans: [[20.5, 24.5]],
    course: { chart: 1, lines: [0], says: "Retransmitted: SYN" },
    title: `127.0.0.1:8090 (${HOSTILE}, pid 30340): its accept queue (backlog 5) is full: pid 30340 was stopped.`,
    fix: "Find out what stopped nginx (pid 30340) (SIGSTOP).",
    facts: [
      ["where", "127.0.0.1:8090, backlog 5, network namespace host (4026531833)"],
      ["who", `${HOSTILE}, pid 30340: stopped (state T) in 3 of 12 samples, 9 % of one CPU`],
      ["command", `nginx: worker process ${HOSTILE}`],
      ["since", "20.51 s after the start"],
    ],
    since_s: 20.51,
    confidence: "high",
    because: [
      "ListenOverflows rises only when an accept queue is full; it rose by 366",
      "its queue was at least three quarters full in 4 of 12 samples",
      "3 of 3 arithmetic checks fit",
    ],
    steps: steps.map(([kind, says, numbers, rows]) => ({ kind, says, numbers, rows })),
    arithmetic: [
      {
        formula: "drops of the listener = ListenOverflows of its namespace",
        expected: "366 drops",
        measured: "377 drops",
        agrees: true,
        tolerance: "within 10 %",
      },
      {
        formula: "SYNs retransmitted ≥ clients that waited",
        expected: "89 SYNs",
        measured: "225 SYNs",
        agrees: true,
        tolerance: "at least",
      },
      {
        formula: "dropped last ACKs × retransmits per request = duplicate requests",
        expected: "218 segments",
        measured: "31 segments",
        agrees: false,
        tolerance: "within 25 %",
      },
    ],
    ruled_out: [
      [
        "syn-queue-overflow",
        "The SYN queue is full and SYN cookies are off",
        "0 SYNs were dropped, 50 were answered with a cookie; it follows from the full accept queue.",
      ],
      [
        "local-firewall-drop",
        "A firewall of this host drops SYNs",
        `${HOSTILE}: no packet was dropped by netfilter.`,
      ],
    ],
    advice: [
      {
        action: "Find out what stopped the worker.",
        kind: "look:",
        command: `grep State /proc/30340/status # ${HOSTILE}`,
        at: "on this host",
        risk: "none",
        expected: "no connection waits longer than a round trip",
      },
      {
        action: "Give listen() a larger backlog, so that a pause of 4 s is bridged.",
        kind: "fix:",
        command: "sysctl -w net.core.somaxconn=65535",
        at: "this host, and `listen 8090 backlog=4096` in nginx.conf",
        risk: "Clients wait in the queue instead of being refused early.",
        expected: "5,881 connections per second for 4.01 s need 23,600 places",
      },
    ],
    verify: "Record again: ListenOverflows must stay where it is, and no client may wait 1 s.",
  };
}

export function loss(): Run["findings"][number] {
  const first = overflow();
  return {
    ...first,
    cause: "path-loss",
    number: "C10",
    layer: "NETWORK",
    impact: "7 of 9 connections retransmitted.",
    lost: "",
    spans: [
      [5, 8],
      [30, 41.5],
    ],
    course: null,
    title: "The path to 10.0.0.7 loses 0.8 % of the packets at random.",
    fix: "Look at the path to 10.0.0.7: a cable, a transceiver, a port with errors.",
    since_s: null,
    confidence: "medium",
    steps: first.steps.slice(0, 3),
    arithmetic: [],
    advice: [],
  };
}
