// Time lines on one axis: every chart shows the same part, and the moment the trouble began.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Axis } from "../charts/axis";
import { axisKey } from "../charts/axis";
import { PALETTE } from "../charts/colours";
import { heat } from "../charts/heat";
import { type Lines, lines } from "../charts/lines";
import { moment } from "../format";
import type { Chart, Run } from "../page";
import { Drawn } from "../parts/drawn";
import { Empty, Section } from "../parts/section";
import { markText, telling } from "../timelines-model";

export function TimeLines({ run, axis }: { run: Run; axis: Axis }) {
  const { timelines, latency } = run;
  const shown = useMemo(() => telling(run), [run]);
  const first = shown[0] ?? 0;
  const charts = useMemo(
    () => timelines.charts.map((chart, i) => lines(chart, timelines, axis, i === first)),
    [timelines, axis, first],
  );
  const map = useMemo(
    () => (latency && latency.heat.length > 0 ? heat(latency, timelines, axis) : null),
    [latency, timelines, axis],
  );
  const chart = (i: number) => {
    const [of, drawn] = [timelines.charts[i], charts[i]];
    return of && drawn ? <OneChart key={i} chart={of} lines={drawn} /> : null;
  };
  const rest = timelines.charts.map((_, i) => i).filter((i) => !shown.includes(i));
  const more = [
    ...(map ? ["connect time"] : []),
    ...rest.map((i) => timelines.charts[i]?.title ?? ""),
  ];
  return (
    <Section
      id="timelines"
      lead="All charts show the same part of the recording. Drag over one to zoom into all; a double click shows everything."
    >
      {timelines.charts.length === 0 && !map ? (
        <Empty>This recording has nothing that can be drawn over time.</Empty>
      ) : (
        <div
          class="timelines"
          role="group"
          aria-label="Time lines; + and - zoom, ← and → move, 0 shows everything"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it takes keys
          tabIndex={0}
          onKeyDown={(event) => {
            if (!event.ctrlKey && !event.metaKey && !event.altKey && axisKey(axis, event.key)) {
              event.preventDefault();
            }
          }}
        >
          <Marks axis={axis} run={run} />
          <Tools axis={axis} />
          {shown.map(chart)}
          {more.length > 0 && (
            <details>
              <summary>More: {more.join(", ")}</summary>
              {map && <HeatMap map={map} />}
              {rest.map(chart)}
            </details>
          )}
        </div>
      )}
    </Section>
  );
}

/** What is shown, and buttons for those without a mouse. */
function Tools({ axis }: { axis: Axis }) {
  const [, again] = useState(0);
  useEffect(() => axis.listen(() => again((n) => n + 1)), [axis]);
  const buttons: [string, string, string][] = [
    ["+", "+", "Zoom in"],
    ["-", "−", "Zoom out"],
    ["ArrowLeft", "←", "Earlier"],
    ["ArrowRight", "→", "Later"],
    ["0", "All", "Show everything"],
  ];
  return (
    <div class="tools">
      <span data-testid="zoom-range">
        {moment(axis.min)} to {moment(axis.max)}
      </span>
      <span class="buttons">
        {buttons.map(([key, text, label]) => (
          <button key={key} type="button" aria-label={label} onClick={() => axisKey(axis, key)}>
            {text}
          </button>
        ))}
      </span>
    </div>
  );
}

/** The marked moments; each leads to its place. */
function Marks({ axis, run }: { axis: Axis; run: Run }) {
  if (run.timelines.marks.length === 0) return null;
  return (
    <div class="marks">
      {run.timelines.marks.map((mark, i) => (
        <button
          key={i}
          type="button"
          class="mark"
          style={{ "--own": `var(--f${mark.finding % 6})` }}
          onClick={() => axis.pin(mark.at_s)}
        >
          {markText(mark)}
        </button>
      ))}
    </div>
  );
}

function OneChart({ chart, lines: drawn }: { chart: Chart; lines: Lines }) {
  const [values, setValues] = useState<string[] | null>(null);
  useEffect(() => drawn.watch(setValues), [drawn]);
  return (
    <figure class="chart">
      <figcaption>
        <h3>{chart.title}</h3>
        {chart.unit !== "" && <span class="faint">{chart.unit}</span>}
        <span class="legend">
          {drawn.keys.map((key, i) => (
            <span key={i} class={key.limit ? "key limit" : "key"}>
              <i style={key.limit ? {} : { background: `var(--c${key.colour % PALETTE})` }} />
              {key.name}
              {key.limit ? ", limit" : ""}
              {values && <b>{values[i]}</b>}
            </span>
          ))}
        </span>
      </figcaption>
      {chart.lines.length === 0 ? (
        <Empty>Nothing of this was recorded.</Empty>
      ) : (
        <Drawn draw={drawn.draw} label={drawn.label} height={drawn.height} id={chart.id} />
      )}
      {chart.note !== "" && <p class="note">{chart.note}</p>}
    </figure>
  );
}

function HeatMap({ map }: { map: ReturnType<typeof heat> }) {
  return (
    <figure class="chart">
      <figcaption>
        <h3>Connect time</h3>
        <span class="faint">stronger colour: more connections, by their logarithm</span>
      </figcaption>
      <Drawn draw={map.draw} label={map.label} height={190} id="latency-heat" />
    </figure>
  );
}
