// The evidence: a chain per finding, and the longest waits walked from waker to waker.

import type { Run } from "../page";
import { Empty, Section } from "../parts/section";
import { Chain, type GoTo } from "./chain";

export function Evidence({ run, goTo }: { run: Run; goTo: GoTo }) {
  return (
    <Section
      id="evidence"
      lead="From the symptom to the limit. Choose a step, or walk with ← → (j and k from anywhere); the rows of the recording it rests on open below."
    >
      {run.findings.length === 0 && (
        <Empty>There is no finding, so there is no chain to walk.</Empty>
      )}
      {run.findings.map((finding, i) => (
        <div key={finding.cause + i} id={`evidence-${i + 1}`} class="part">
          <h3>{finding.title}</h3>
          {finding.steps.length > 0 ? (
            <Chain run={run} finding={finding} number={i + 1} goTo={goTo} />
          ) : (
            <Empty>This finding has no step.</Empty>
          )}
        </div>
      ))}
      {run.summary.walks.length > 0 && <Walks walks={run.summary.walks} />}
    </Section>
  );
}

/** Each wait from the thread that waited back to what woke it. */
function Walks({ walks }: { walks: string[][] }) {
  return (
    <div class="part">
      <h3>The longest waits that a retransmission ended</h3>
      <p class="faint">
        Read from left to right: who waited, what ended the wait, and what was behind it.
      </p>
      {walks.map((hops, i) => (
        <ol key={i} class="hops">
          {hops.map((hop, h) => (
            <li key={h}>{hop}</li>
          ))}
        </ol>
      ))}
    </div>
  );
}
