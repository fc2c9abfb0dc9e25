// What the recording lacks: what was lost, what could not attach, what was thinned for this page.
import { number, plural } from "../format";
import type { Run } from "../page";
import { Prose } from "../parts/prose";
import { Section } from "../parts/section";
import { Table } from "../parts/table";

/** How many records a recording lost, over all its sources. */
export function lostIn(run: Run): number {
  return run.sources.reduce((sum, source) => sum + source.lost, 0);
}

export function Health({ run }: { run: Run }) {
  const lost = lostIn(run);
  const missing = run.sources.filter((source) => source.verdict !== "attached").length;
  return (
    <Section
      id="health"
      fold={
        lost > 0 || missing > 0 || !run.facts.complete
          ? `${number(lost)} records lost, ${plural(missing, "source")} not attached`
          : "every source worked, nothing was lost"
      }
    >
      <dl class="counts">
        <div class={lost > 0 ? "bad" : ""}>
          <dd>{number(lost)}</dd>
          <dt>records lost</dt>
        </div>
        <div class={missing > 0 ? "bad" : ""}>
          <dd>
            {number(missing)} of {number(run.sources.length)}
          </dd>
          <dt>sources not attached</dt>
        </div>
        <div class={run.facts.complete ? "" : "bad"}>
          <dd>{run.facts.complete ? "yes" : "no"}</dd>
          <dt>ended by the recorder itself</dt>
        </div>
      </dl>
      {run.health.length > 0 ? (
        <ul class="notes">
          {run.health.map((note, i) => (
            <li key={i}>
              {note.source !== "" && <code>{note.source}: </code>}
              <Prose text={note.says} />
            </li>
          ))}
        </ul>
      ) : (
        <p>No source has anything to say against this recording.</p>
      )}
      {run.sources.length > 0 && (
        <Table
          label="Sources with their verdicts"
          heads={["source", "verdict", "lost", "gives", "why not"]}
          rows={run.sources.map((source) => [
            <span key="name">
              <code>{source.name}</code>
              {source.required && <span class="faint"> required</span>}
            </span>,
            <span key="verdict" class={`verdict ${source.verdict}`}>
              {source.verdict}
            </span>,
            source.lost > 0 ? (
              <strong key="lost" class="bad">
                {number(source.lost)}
              </strong>
            ) : (
              "0"
            ),
            <span key="gives" class="wrap">
              {source.gives}
            </span>,
            <span key="why" class="wrap">
              <Prose text={source.because} />
            </span>,
          ])}
        />
      )}
      <h3>What was thinned for this page</h3>
      {run.thinned.length > 0 ? (
        <ul>
          {run.thinned.map((says, i) => (
            <li key={i}>{says}</li>
          ))}
        </ul>
      ) : (
        <p>Nothing was.</p>
      )}
    </Section>
  );
}
