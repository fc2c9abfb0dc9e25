// What threads did with their time, as bands over the time lines' axis and as numbers.
import { useMemo } from "preact/hooks";
import type { Axis } from "../charts/axis";
import { bands, meanShares, STATES, stateColour } from "../charts/bands";
import { number, percent, plural } from "../format";
import type { Threads as Data, Run } from "../page";
import { Drawn } from "../parts/drawn";
import { Empty, Section } from "../parts/section";
import { Table } from "../parts/table";

export function Threads({ run, axis }: { run: Run; axis: Axis }) {
  return (
    <Section id="threads" fold={run.threads ? plural(run.threads.total, "thread") : "not recorded"}>
      {run.threads && run.threads.bands.length > 0 ? (
        <Bands threads={run.threads} axis={axis} />
      ) : (
        <Empty>
          This recording does not tell what threads did: record it <code>--with threads</code>.
        </Empty>
      )}
    </Section>
  );
}

function Bands({ threads, axis }: { threads: Data; axis: Axis }) {
  const draw = useMemo(() => bands(threads, axis), [threads, axis]);
  const { bands: all, states } = threads;
  const means = useMemo(() => all.map((band) => meanShares(band, states.length)), [all, states]);
  const busiest = all[0];
  const label = `Shares of time by state of ${plural(all.length, "thread")}. ${
    busiest ? `First is ${busiest.name}: ${told(states, means[0] ?? [])}.` : ""
  }`;
  return (
    <>
      <p class="lead">
        {all.length < threads.total
          ? `${number(all.length)} of ${plural(threads.total, "thread")}, those that did or waited most first.`
          : "Those that did or waited most come first."}
      </p>
      <figure class="chart">
        <figcaption>
          <span class="legend">
            {states.map((state) => (
              <span key={state} class="key state" title={STATES[state]}>
                <i style={{ background: `var(--${stateColour(state)})` }} />
                {state} <span class="faint">{STATES[state]}</span>
              </span>
            ))}
          </span>
        </figcaption>
        <Drawn draw={draw} label={label} height={all.length * 24 + 36} id="threads" />
      </figure>
      <details>
        <summary>The same as numbers, over the whole recording</summary>
        <Table
          label="Mean shares of the threads' states"
          heads={["thread", "process", ...states]}
          rows={all.map((band, i) => [
            band.name,
            String(band.pid),
            ...(means[i] ?? []).map((share) => (share < 0.0005 ? "" : percent(share))),
          ])}
        />
      </details>
    </>
  );
}

/** The largest shares in words. */
function told(states: string[], shares: number[]): string {
  const named = states.map((state, i) => ({ state, share: shares[i] ?? 0 }));
  const large = named.filter(({ share }) => share >= 0.05).sort((a, b) => b.share - a.share);
  return large.map(({ state, share }) => `${STATES[state] ?? state} ${percent(share)}`).join(", ");
}
