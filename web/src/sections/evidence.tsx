// The evidence: a chain per finding, and the longest waits walked from waker to waker.

import type { Run } from "../page";
import { Empty, Section } from "../parts/section";
import { Chain, type GoTo } from "./chain";

export function Evidence({ run, goTo }: { run: Run; goTo: GoTo }) {
  return (
    <Section
      id="evidence"
      fold={run.findings.length === 0 ? "there is no finding" : undefined}
      lead="From the symptom to the limit. Choose a step, or walk with ← → (j and k from anywhere)."
    >
      {run.findings.length === 0 && (
        <Empty>There is no finding, so there is no chain to walk.</Empty>
      )}
      {run.findings.map((finding, i) => {
        const chain =
          finding.steps.length > 0 ? (
            <Chain run={run} finding={finding} number={i + 1} goTo={goTo} />
          ) : (
            <Empty>This finding has no step.</Empty>
          );
        return i === 0 ? (
          <div key={i} id="evidence-1" class="part">
            {chain}
          </div>
        ) : (
          <details key={i} id={`evidence-${i + 1}`} class="more">
            <summary>
              Of finding {i + 1}, {finding.cause}
            </summary>
            {chain}
          </details>
        );
      })}
      {run.summary.walks.length > 0 && <Walks walks={run.summary.walks} />}
    </Section>
  );
}

/** Each wait from the thread that waited back to what woke it. */
function Walks({ walks }: { walks: string[][] }) {
  return (
    <details class="part">
      <summary>The longest waits that a retransmission ended</summary>
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
    </details>
  );
}
