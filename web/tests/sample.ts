// Makes a page of invented data for tests of the page by itself: large, with hostile names, or empty.
import type {
  CauseDoc,
  Flame,
  Limits,
  Node,
  Packed,
  Page,
  Run,
  Sockets,
  Verdict,
  Whose,
} from "../src/page";
import { HOSTILE, loss, overflow } from "./sample-findings";

export { HOSTILE };

/** How much of everything. */
export interface Size {
  sockets: number;
  /** Samples per socket. */
  samples: number;
}

const LENGTH = 60;
const BINS = 600;

/** A number 0..1 that looks like chance and is the same every time. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

function pack(values: (number | null)[], scale: number): Packed {
  let last = 0;
  const deltas = values.map((value) => {
    if (value === null) return null;
    const whole = Math.round(value / scale);
    const delta = whole - last;
    last = whole;
    return delta;
  });
  return { scale, deltas };
}

/** A page with everything. */
export function full(size: Size = { sockets: 2000, samples: 50 }): Page {
  return { tcpwhy: "0.3.0", runs: [run("slow", size)], causes: causes(), comparison: null };
}

/** Two recordings that are compared. */
export function comparison(): Page {
  const size = { sockets: 200, samples: 20 };
  const flame = graph("cpu-diff", "CPU: slow against fast", true);
  return {
    tcpwhy: "0.3.0",
    runs: [run(`fast ${HOSTILE}`, size), run("slow", size)],
    causes: causes(),
    comparison: {
      headline: "slow has what fast has not: accept-queue-overflow.",
      ticket: "**slow has what fast has not: accept-queue-overflow.**",
      says: [
        `Connections of slow took 1.02 s in the median, of fast ${HOSTILE} 41 µs.`,
        "ListenOverflows rose by 366 in slow and not at all in fast.",
      ],
      tables: [
        {
          id: "counters",
          title: "Counters",
          columns: ["counter", "fast, per s", "slow, per s"],
          rows: [
            [["TcpExt.ListenOverflows", "0", "36.6"], null],
            [[HOSTILE, "1", "22"], null],
          ],
          telling: 2,
          left_out: 12,
        },
      ],
      flames: [flame],
    },
  };
}

/** A recording that has nothing. */
export function empty(): Page {
  const page = full({ sockets: 1, samples: 1 });
  const made = page.runs[0] as Run;
  page.runs = [
    {
      ...made,
      name: "empty",
      facts: { ...made.facts, host: HOSTILE, length_s: 0, complete: false, cost: [] },
      verdict: {
        ...made.verdict,
        kind: "unexplained",
        layer: "",
        says: `No cause found in 0 s of host ${HOSTILE}.`,
        time: "",
      },
      services: null,
      findings: [],
      noted: [],
      summary: { counts: [], symptoms: [], tested: [], cannot_tell: [], waits: [], walks: [] },
      health: [],
      sources: [],
      settings: [],
      timelines: { bin_s: 0, bins: 0, charts: [], marks: [] },
      latency: null,
      sockets: null,
      threads: null,
      flames: [],
      limits: [],
      rows: {},
      tables: {},
      thinned: [],
    },
  ];
  return page;
}

/** A healthy host: something was recorded, and no cause holds. */
export function healthy(): Page {
  const page = full({ sockets: 12, samples: 40 });
  for (const each of page.runs) {
    each.findings = [];
    each.noted = [];
    each.summary.symptoms = [];
    const says = "No cause found in 60 s of host lb-03.";
    each.verdict = {
      ...each.verdict,
      kind: "clean",
      layer: "",
      says,
      also: "No symptom was seen.",
    };
    each.timelines.marks = [];
    each.flames = [];
    each.threads = null;
  }
  return page;
}

function causes(): CauseDoc[] {
  return [
    {
      id: "path-loss",
      number: "C10",
      title: "The path loses packets",
      text: `**Symptom.** Transfers are slow, see \`ss -ti\`.\n\n- one ${HOSTILE}\n- two`,
    },
  ];
}

function verdict(): Verdict {
  return {
    kind: "found",
    layer: "APPLICATION",
    says: `2 problems in 60 s of host lb-03 ${HOSTILE}, the worst first`,
    also: "",
    time: `127.0.0.1:8090 (${HOSTILE}): 5,000 requests, p50 2 ms, p99 8 ms: application 98 %`,
    unexplained: [],
    ticket: `## APPLICATION · 2 problems of \\${HOSTILE}\n`,
  };
}

function run(name: string, size: Size): Run {
  return {
    name,
    verdict: verdict(),
    facts: {
      host: `lb-03 ${HOSTILE}`,
      kernel: `6.8.0-45 ${HOSTILE}`,
      machine: "x86_64",
      cpus: 4,
      hz: 250,
      producer: "live",
      parameters: [],
      tcpwhy: "0.3.0",
      start_unix_ms: 1763841131000,
      length_s: LENGTH,
      complete: true,
      command_line: ["tcpwhy", "explain", "--for", "60s", "-o", HOSTILE],
      namespaces: [
        [4026531833, "host"],
        [4026532411, HOSTILE],
      ],
      cost: ["The recorder used 2.1 % of one CPU.", "It wrote 14 MB."],
    },
    services: services(),
    findings: [overflow(), loss()],
    noted: [
      {
        cause: "tail-loss",
        title: `The last segment of one message to ${HOSTILE} was lost.`,
        at: `network namespace ${HOSTILE} (4026532411)`,
        because: "1 of 4,200 exchanges waited 212 ms, too few to be a finding",
      },
    ],
    summary: {
      counts: [
        ["connections opened", "49,739"],
        ["accepted", "49,711"],
        ["failed", "0"],
        ["segments retransmitted", "253"],
      ],
      symptoms: [
        { says: "SYNs retransmitted", count: 225, means: "no answer came in time" },
        { says: `resets sent by ${HOSTILE}`, count: 12, means: "" },
      ],
      cannot_tell: [["cpu-contention", '"threads" was not recorded']],
      tested: [
        ["accept-queue-overflow", "The application accepts more slowly than clients connect"],
        ["path-loss", "The path loses packets at random"],
        ["syn-queue-overflow", "The SYN queue is full and SYN cookies are off"],
      ],
      waits: [
        ["a segment retransmitted", 89, 8450],
        ["a timer", 12040, 503],
      ],
      walks: [
        [
          `wrk/30341 waited 1.02 s in epoll_wait`,
          "woken by ksoftirqd/1, which processed a SYN-ACK",
          "the SYN-ACK answered the second SYN of 127.0.0.1:43210",
          `the first SYN was dropped by ${HOSTILE}: its accept queue was full`,
        ],
      ],
    },
    health: [
      {
        source: "tcp_retransmit_skb",
        hole: true,
        says: "17 records found the ring full and were lost.",
      },
      { source: HOSTILE, hole: true, says: `${HOSTILE} could not be read.` },
      { source: "threads", hole: false, says: "late: the account of a thread" },
    ],
    sources: [
      source("tcp_retransmit_skb", "attached", "", 17),
      source("inet_sock_set_state", "attached", "", 0),
      source("iter/tcp", "unsupported", "the kernel is older than 5.9", 0),
      source(HOSTILE, "failed", HOSTILE, 0),
    ],
    settings: settings(),
    timelines: timelines(),
    latency: latency(),
    sockets: sockets(size),
    threads: threads(),
    flames: [
      graph("cpu", "All CPUs", false),
      graph("softirq", "Softirqs", false),
      graph("off-cpu", "Off CPU, by waker", false),
    ],
    limits: limits(),
    rows: {
      "event:1041": {
        table: "event",
        time_s: 20.513,
        cells: [
          ["kind", "drop"],
          ["reason", "TCP_LISTEN_OVERFLOW"],
          ["local", "127.0.0.1:8090"],
          ["comm", HOSTILE],
        ],
      },
      "event:1042": {
        table: "event",
        time_s: 20.741,
        cells: [
          ["kind", "retransmit"],
          ["local", "127.0.0.1:43210"],
          ["attempt", "1"],
        ],
      },
      "listener:12": {
        table: "listener",
        time_s: 21.5,
        cells: [
          ["local", "127.0.0.1:8090"],
          ["queue", "6"],
          ["backlog", "5"],
        ],
      },
    },
    tables: {
      event: {
        doc: "Something that happened to a connection.",
        columns: [
          ["kind", "", "What happened."],
          ["reason", "", "Why, in the kernel's words."],
          ["local", "", "Address and port of this side."],
          ["attempt", "", "Which try it was."],
        ],
      },
      listener: {
        doc: "A listening socket, sampled.",
        columns: [
          ["queue", "connections", "Waiting for accept()."],
          ["backlog", "connections", "As many may wait."],
        ],
      },
    },
    thinned: [
      `${size.sockets} of the recording's sockets are drawn, those with the most samples.`,
      "Time lines have 600 bins of 0.1 s.",
    ],
  };
}

function source(name: string, verdict: string, because: string, lost: number) {
  return {
    name,
    gives: "segments that were retransmitted",
    required: false,
    verdict,
    because,
    lost,
  };
}

function settings(): Run["settings"] {
  const some: Run["settings"] = [
    {
      netns: "host",
      name: "net.ipv4.tcp_max_syn_backlog",
      value: "512",
      changes: [[31.2, "4096"]],
    },
    { netns: HOSTILE, name: "net.core.somaxconn", value: HOSTILE, changes: [] },
  ];
  for (let i = 0; i < 120; i++) {
    some.push({
      netns: "host",
      name: `net.ipv4.tcp_setting_${i}`,
      value: String(i * 7),
      changes: [],
    });
  }
  return some;
}

function timelines(): Run["timelines"] {
  const next = chance(11);
  const line = (name: string, at: (t: number) => number | null, scale = 1, limit = false) => ({
    name,
    limit,
    values: pack(
      Array.from({ length: BINS }, (_, i) => at((i * LENGTH) / BINS)),
      scale,
    ),
  });
  const stopped = (t: number) => t > 20.5 && t < 24.5;
  const chart = (
    id: string,
    title: string,
    unit: string,
    lines: ReturnType<typeof line>[],
    note = "",
  ) => ({
    id,
    title,
    unit,
    lines,
    note,
  });
  return {
    bin_s: LENGTH / BINS,
    bins: BINS,
    charts: [
      chart("connections", "Connections", "per s", [
        line("opened", (t) => (stopped(t) ? 60 : 5881) + next() * 300),
        line("accepted", (t) => (stopped(t) ? 0 : 5861) + next() * 300),
      ]),
      chart("retransmits", "Segments retransmitted", "per s", [
        line("SYN", (t) => (stopped(t) ? 80 + next() * 40 : next() * 2)),
        line("data", () => next() * 5),
      ]),
      chart("resets", "Resets", "per s", [
        line("sent", () => next() * 3),
        line("received", () => 0),
      ]),
      chart("time-wait", "TIME_WAIT", "sockets", [
        line("TIME_WAIT", (t) => Math.min(28000, t * 1500)),
        line("TIME_WAIT", () => 32768, 1, true),
      ]),
      chart(
        "backlog",
        "Accept queue of 127.0.0.1:8090",
        "connections",
        [line(HOSTILE, (t) => (stopped(t) ? 6 : next() * 2)), line(HOSTILE, () => 5, 1, true)],
        "Sampled once a second: a queue that is full for less may be missed.",
      ),
      chart(
        "cpu",
        "CPU",
        "%",
        Array.from({ length: 16 }, (_, c) =>
          line(
            `CPU ${c}`,
            (t) => (t > 40 && t < 42 ? null : stopped(t) ? 9 : 60 + c + next() * 15),
            0.1,
          ),
        ),
      ),
      chart("run-queue", "Waiting for a CPU", "tasks", [line("tasks", () => next() * 8)]),
      chart("throughput", "Throughput", "byte/s", [
        line("sent", () => 4e7 + next() * 1e7, 1000),
        line("received", () => 3e6 + next() * 1e6, 1000),
      ]),
    ],
    marks: [
      { finding: 0, at_s: 20.5, to_s: 24.5, says: `accept-queue-overflow ${HOSTILE}` },
      { finding: 1, at_s: 5, to_s: 8, says: "path-loss" },
      { finding: 1, at_s: 30, to_s: 41.5, says: "path-loss" },
    ],
  };
}

function services(): Run["services"] {
  const parts: { name: string; whose: Whose }[] = [
    { name: "not reading", whose: "application" },
    { name: "service time", whose: "application" },
    { name: "repairing losses", whose: "tcp" },
    { name: "peer", whose: "peer" },
  ];
  const rest = { unanswered: 2, multiplexed: false, p50_ms: 1.5, p90_ms: 3, p99_ms: 40 };
  const over_time = Array.from({ length: 60 }, (_, i) =>
    i % 9 === 4 ? [] : [0.1, i / 60, 0, 0.2],
  );
  const summed = (k: number) => over_time.reduce((sum, part) => sum + (part[k] ?? 0), 0);
  return {
    parts,
    width_s: 1,
    services: [
      {
        ...rest,
        serves: true,
        at: "10.0.0.1:80",
        netns: "host",
        owner: `${HOSTILE}, pid 7`,
        exchanges: 3000,
        per_s: 50,
        open: 0,
        spent_s: parts.map((_, k) => summed(k)),
        over_time,
      },
      {
        ...rest,
        serves: false,
        at: "[2001:db8::7]:5432",
        netns: HOSTILE,
        owner: "",
        exchanges: 40,
        per_s: 0.7,
        open: 1,
        spent_s: [0, 0, 0.5, 2],
        over_time: [],
      },
    ],
  };
}

function latency(): Run["latency"] {
  const bounds = Array.from({ length: 80 }, (_, i) => 0.001 * 10 ** ((i + 1) / 10));
  const counts = bounds.map((bound) => {
    const near = (ms: number, many: number, width: number) =>
      Math.round(many * Math.exp(-((Math.log10(bound / ms) / width) ** 2)));
    return (
      near(0.041, 40000, 0.25) + near(1020, 89, 0.06) + near(3070, 31, 0.06) + near(7160, 9, 0.06)
    );
  });
  const next = chance(5);
  const heat: [number, number, number][] = [];
  for (let bin = 0; bin < BINS; bin++) {
    const stopped = bin >= 205 && bin < 245;
    for (let row = 12; row < 24; row++) {
      const many = Math.round((stopped ? 3 : 90) * Math.exp(-(((row - 16) / 3) ** 2)) * next());
      if (many > 0) heat.push([bin, row, many]);
    }
    if (stopped && next() > 0.5) heat.push([bin, 60, 1 + Math.round(next() * 4)]);
    if (bin > 230 && bin < 260 && next() > 0.7) heat.push([bin, 65, 1]);
  }
  return {
    says: "From connect() to established, on this host's side, of 49,739 connections.",
    count: 49739,
    percentiles: [
      ["median", 0.041],
      ["p90", 0.09],
      ["p99", 1021.3],
      ["p99.9", 8450],
      ["most", 8460],
    ],
    bounds_ms: bounds,
    counts,
    heat,
    clusters: [
      { median_ms: 0.041, count: 49610, attempt: 0 },
      { median_ms: 1020, count: 89, attempt: 1 },
      { median_ms: 3070, count: 31, attempt: 2 },
      { median_ms: 7160, count: 9, attempt: null },
    ],
    schedule_ms: [1000, 3000, 7000, 15000, 31000],
  };
}

function sockets({ sockets: many, samples }: Size): Sockets {
  const next = chance(3);
  const time: number[] = [];
  const [cwnd, rtt, rate]: [(number | null)[], (number | null)[], (number | null)[]] = [[], [], []];
  const all = Array.from({ length: many }, (_, i) => {
    const slow = i % Math.max(40, many / 8) === 7;
    const sack = i % 5 !== 0;
    let window = 10 + next() * 20;
    for (let s = 0; s < samples; s++) {
      time.push(((s + (i % 10) / 10) * LENGTH) / Math.max(samples, 1));
      window = next() < 0.08 ? window / 2 : window + (slow ? 0.1 : 1.5 * next());
      cwnd.push(Math.max(2, slow ? window / 4 : window));
      rtt.push(s === 3 ? null : (slow ? 40 : 0.4 + (i % 7) * 0.3) * (1 + next() * 0.3));
      rate.push(((slow ? 0.02 : 1) * window * 1448) / 0.01);
    }
    return {
      name:
        i === 7
          ? `${HOSTILE} → 10.0.0.7:443`
          : `10.0.${i >> 8}.${i & 255}:8090 → 10.1.0.${i % 250}:${32768 + i}`,
      attributes: [
        sack ? "yes" : "no",
        i % 3 === 0 ? HOSTILE : i % 3 === 1 ? "nginx" : "haproxy",
        ["cubic", "bbr", "reno"][i % 3] ?? "",
      ],
      first: i * samples,
      count: samples,
      outlier: slow,
    };
  });
  return {
    total: many * 3,
    attributes: ["sack", "owner", "congestion control"],
    sockets: all,
    time_s: pack(time, 0.001),
    measures: [
      { name: "cwnd", unit: "segments", values: pack(cwnd, 1) },
      { name: "rtt", unit: "ms", values: pack(rtt, 0.001) },
      { name: "rate sent", unit: "byte/s", values: pack(rate, 100) },
    ],
    outliers: [
      `8 sockets send 50 times slower than their like; what they have in common: sack=no (precision 0.92, recall 1), owner ${HOSTILE}.`,
    ],
  };
}

function threads(): Run["threads"] {
  const next = chance(9);
  const states = ["USR", "SYS", "LAT", "SLP", "LCK", "DSK", "FLT", "STP"];
  const names = [
    HOSTILE,
    "nginx",
    "nginx",
    "wrk",
    "ksoftirqd/1",
    "postgres",
    "haproxy",
    "kworker/u8:2",
  ];
  const bands = names.map((name, b) => ({
    name: `${name}/${30340 + b}`,
    pid: 30340 + b,
    intervals: Array.from({ length: LENGTH }, (_, i): [number, number] => [i, i + 1]),
    shares: Array.from({ length: LENGTH }, (_, i) => {
      if (b < 2 && i >= 20 && i < 25) return [0, 0, 0, 0, 0, 0, 0, 100];
      const parts = [
        30 / (b + 1),
        20 / (b + 1),
        6,
        40 + b * 10,
        b === 5 ? 20 : 1,
        b === 5 ? 15 : 1,
        1,
        0,
      ];
      const rough = parts.map((part) => part * (0.5 + next()));
      const sum = rough.reduce((a, c) => a + c, 0);
      return rough.map((part) => (part / sum) * 100);
    }),
  }));
  return { total: 64, states, bands };
}

function graph(id: string, title: string, differs: boolean): Flame {
  const next = chance(id.length);
  const names = [
    "entry_SYSCALL_64_[k]",
    "tcp_v4_rcv_[k]",
    "tcp_rcv_state_process_[k]",
    "inet_csk_accept_[k]",
    "__inet_lookup_established_[k]",
    "ngx_epoll_process_events",
    "ngx_event_accept",
    "worker_main",
    HOSTILE,
    "napi_poll_[k]",
  ];
  const grow = (name: string, value: number, depth: number): Node => {
    const children: Node[] = [];
    let left = value;
    for (let i = 0; depth < 14 && i < 3 && left > value * 0.2; i++) {
      const share = Math.floor(left * (0.3 + next() * 0.5));
      if (share < 3) break;
      children.push(grow(names[Math.floor(next() * names.length)] ?? "", share, depth + 1));
      left -= share;
    }
    return {
      name,
      value,
      ...(differs ? { delta: (next() - 0.5) * 0.1 } : {}),
      ...(children.length > 0 ? { children } : {}),
    };
  };
  return {
    id,
    title,
    unit: id === "off-cpu" ? "ms" : "samples",
    root: grow("all", 23000, 0),
    note: "31 % of the samples found the CPU idle and are left out.",
  };
}

function limits(): Limits[] {
  return [
    {
      id: "listeners",
      title: "Listeners against their backlog",
      columns: ["listener", "owner", "backlog", "most waiting", "drops"],
      rows: [
        [["127.0.0.1:8090", HOSTILE, "5", "6", "377"], 1.2],
        [["[::]:443", "haproxy", "4096", "3200", "0"], 0.78],
        [["0.0.0.0:22", "sshd", "128", "1", "0"], 0.008],
      ],
      telling: 2,
      left_out: 0,
    },
    {
      id: "ports",
      title: "Local ports per destination",
      columns: ["from", "to", "used", "of"],
      rows: [[["10.0.0.1", "10.0.0.7:5432", "27,104", "28,232"], 0.96]],
      telling: 1,
      left_out: 14,
    },
    {
      id: "resources",
      title: "Resources",
      columns: ["resource", "utilisation", "saturation", "errors"],
      rows: [
        [["CPU 0", "71 %", "3.1 waiting", "0"], 0.71],
        [["eth0", "400 Mbit/s", "0", "0"], null],
      ],
      telling: 1,
      left_out: 0,
    },
  ];
}
