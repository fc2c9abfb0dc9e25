// The socket explorer: every socket over time or a measure against another, coloured, filtered, named.
import { useMemo, useState } from "preact/hooks";
import { cloud } from "../charts/cloud";
import { unpack } from "../data";
import { moment, number, plural, withUnit } from "../format";
import type { Sockets as Data, Run } from "../page";
import { Drawn } from "../parts/drawn";
import { Empty, Section } from "../parts/section";
import { filterSockets, groups, type Samples, samplesOf } from "../sockets-model";
import { SocketTable } from "./socket-table";

/** Groups beyond this many are told as a number. */
const LEGEND = 12;

export function Sockets({ run }: { run: Run }) {
  return (
    <Section id="sockets" fold={summary(run)}>
      {run.sockets && run.sockets.sockets.length > 0 ? (
        <Explorer data={run.sockets} />
      ) : (
        <Empty>No socket was sampled while this was recorded.</Empty>
      )}
    </Section>
  );
}

/** How many there are, and how many are slow among their like. */
function summary({ sockets }: Run): string {
  if (!sockets) return "none was sampled";
  const outliers = sockets.sockets.filter((socket) => socket.outlier).length;
  const slow = outliers > 0 ? `, ${number(outliers)} slow among their like` : "";
  return `${plural(sockets.total, "socket")}${slow}`;
}

/** What the reader chose. */
interface Chosen {
  /** Number of a measure; -1: time. */
  x: number;
  y: number;
  attribute: number;
  text: string;
  /** Only the sockets with this value of the attribute. */
  value: string | null;
  /** Only this socket. */
  socket: number | null;
}

function Explorer({ data }: { data: Data }) {
  const samples: Samples = useMemo(
    () => ({
      time: unpack(data.time_s),
      values: data.measures.map((measure) => unpack(measure.values)),
    }),
    [data],
  );
  const [chosen, choose] = useState<Chosen>({
    x: -1,
    y: 0,
    attribute: 0,
    text: "",
    value: null,
    socket: null,
  });
  const change = (to: Partial<Chosen>) => choose((old) => ({ ...old, ...to }));
  const grouped = useMemo(() => groups(data, chosen.attribute), [data, chosen.attribute]);
  const matching = useMemo(() => filterSockets(data, chosen.text), [data, chosen.text]);
  const shown = useMemo(() => {
    if (chosen.socket !== null) return [chosen.socket];
    if (chosen.value === null) return matching;
    return matching.filter((i) => data.sockets[i]?.attributes[chosen.attribute] === chosen.value);
  }, [data, matching, chosen.socket, chosen.value, chosen.attribute]);
  const draw = useMemo(
    () => cloud(cloudData(data, samples, chosen, grouped, shown, (socket) => change({ socket }))),
    [data, samples, chosen.x, chosen.y, chosen.attribute, grouped, shown],
  );
  const outliers = data.sockets.filter((socket) => socket.outlier).length;
  const axisName = (i: number) => (i < 0 ? "time" : (data.measures[i]?.name ?? ""));
  const label = `${plural(shown.length, "socket")}: ${axisName(chosen.y)} against ${axisName(chosen.x)}, coloured by ${data.attributes[chosen.attribute] ?? "nothing"}; ${plural(outliers, "outlier")}.`;
  return (
    <>
      <p class="lead">
        {data.sockets.length < data.total
          ? `${number(data.sockets.length)} of the recording's ${plural(data.total, "socket")} are here. `
          : ""}
        Point at a line to learn whose it is, click to see it alone, drag to zoom.
        {outliers > 0 ? " Outliers lie on top and have a rim." : ""}
      </p>
      {data.outliers.length > 0 && (
        <ul class="outliers">
          {data.outliers.map((says, i) => (
            <li key={i}>{says}</li>
          ))}
        </ul>
      )}
      <div class="tools">
        <Choice
          label="y"
          options={data.measures.map((measure, i) => [i, measure.name])}
          value={chosen.y}
          change={(y) => change({ y })}
        />
        <Choice
          label="x"
          options={[[-1, "time"], ...data.measures.map((m, i): [number, string] => [i, m.name])]}
          value={chosen.x}
          change={(x) => change({ x })}
        />
        {data.attributes.length > 0 && (
          <Choice
            label="colour"
            options={data.attributes.map((name, i) => [i, name])}
            value={chosen.attribute}
            change={(attribute) => change({ attribute, value: null })}
          />
        )}
        <label class="filter">
          filter
          <input
            type="search"
            value={chosen.text}
            placeholder={data.attributes[0] ? `text, or ${data.attributes[0]}=value` : "text"}
            onInput={(event) => change({ text: event.currentTarget.value, socket: null })}
            data-testid="socket-filter"
          />
        </label>
        <span aria-live="polite" data-testid="socket-count">
          {number(shown.length)} of {plural(data.sockets.length, "socket")}
        </span>
        {chosen.socket !== null && (
          <button type="button" onClick={() => change({ socket: null })}>
            All again
          </button>
        )}
      </div>
      <div class="legend">
        {grouped.slice(0, LEGEND).map((group) => (
          <button
            key={group.value}
            type="button"
            class="key"
            aria-pressed={chosen.value === group.value}
            onClick={() =>
              change({ value: chosen.value === group.value ? null : group.value, socket: null })
            }
          >
            <i style={{ background: `var(--${group.colour})` }} />
            {group.value === "" ? "unknown" : group.value} <b>{number(group.count)}</b>
          </button>
        ))}
        {grouped.length > LEGEND && (
          <span class="faint">and {plural(grouped.length - LEGEND, "value")} more, in grey</span>
        )}
      </div>
      {shown.length === 0 || data.measures.length === 0 ? (
        <Empty>No socket matches.</Empty>
      ) : (
        <figure class="chart">
          <figcaption>
            <h3>
              {axisName(chosen.y)}
              {chosen.x >= 0 ? ` against ${axisName(chosen.x)}` : " over time"}
            </h3>
            <span class="faint">{data.measures[chosen.y]?.unit}</span>
          </figcaption>
          <Drawn draw={draw} label={label} height={380} id="sockets" />
        </figure>
      )}
      <SocketTable
        data={data}
        samples={samples}
        shown={shown}
        choose={(socket) => change({ socket })}
      />
    </>
  );
}

function Choice(props: {
  label: string;
  options: [number, string][];
  value: number;
  change: (to: number) => void;
}) {
  return (
    <label>
      {props.label}
      <select
        value={props.value}
        onChange={(event) => props.change(Number(event.currentTarget.value))}
      >
        {props.options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What the picture needs to know. */
function cloudData(
  data: Data,
  samples: Samples,
  chosen: Chosen,
  grouped: ReturnType<typeof groups>,
  shown: number[],
  click: (socket: number) => void,
) {
  const colours = new Map(grouped.map((group) => [group.value, group.colour]));
  const x = samples.values[chosen.x] ?? samples.time;
  const range = (i: number): [number, number] => {
    const socket = data.sockets[i];
    return socket ? samplesOf(socket, x.length) : [0, 0];
  };
  return {
    shown,
    range,
    x,
    y: samples.values[chosen.y] ?? samples.time,
    joined: chosen.x < 0,
    xUnit: chosen.x < 0 ? "s" : (data.measures[chosen.x]?.unit ?? ""),
    yUnit: data.measures[chosen.y]?.unit ?? "",
    colour: (i: number) => colours.get(data.sockets[i]?.attributes[chosen.attribute] ?? "") ?? "c0",
    outlier: (i: number) => data.sockets[i]?.outlier ?? false,
    name: (i: number) => data.sockets[i]?.name ?? "",
    tell: (i: number, at: number) => {
      const socket = data.sockets[i];
      if (!socket) return [];
      const nearest = nearestSample(range(i), x, at);
      return [
        socket.name,
        data.attributes.map((name, a) => `${name} ${socket.attributes[a] || "unknown"}`).join(", "),
        `at ${moment(samples.time[nearest] ?? 0)}:`,
        ...data.measures.map((measure, m) => {
          return `${measure.name} ${withUnit(samples.values[m]?.[nearest] ?? Number.NaN, measure.unit)}`;
        }),
        ...(socket.outlier ? ["slow among its like"] : []),
      ];
    },
    click,
  };
}

function nearestSample([from, to]: [number, number], x: Float64Array, at: number): number {
  let best = from;
  for (let i = from; i < to; i++) {
    if (Math.abs((x[i] ?? 0) - at) < Math.abs((x[best] ?? 0) - at)) best = i;
  }
  return best;
}
