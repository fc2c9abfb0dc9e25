// The findings as case reports; or that there is none, and what was looked at.

import { duration, number, plural } from "../format";
import type { Advice, Check, Finding, Noted, Overview, Run } from "../page";
import { Code } from "../parts/code";
import { Section } from "../parts/section";
import { Table } from "../parts/table";

export function Findings({ run }: { run: Run }) {
  return (
    <Section id="findings">
      {run.findings.length === 0 && <Nothing run={run} />}
      {run.findings.map((finding, i) => (
        <Case key={finding.cause + i} finding={finding} of={run.findings.length} number={i + 1} />
      ))}
      {run.noted.length > 0 && <AlsoNoted noted={run.noted} />}
      <Looked summary={run.summary} open={run.findings.length === 0} />
    </Section>
  );
}

function Nothing({ run }: { run: Run }) {
  const { summary, facts } = run;
  const lacks = run.health.some((note) => note.hole) || !facts.complete;
  return (
    <div class="nothing" data-testid="no-cause">
      <h3>
        No cause found in {duration(facts.length_s * 1000)} of {facts.host}.
      </h3>
      <p>
        {summary.tested.length > 0
          ? `${plural(summary.tested.length, "cause")} ${summary.tested.length === 1 ? "was" : "were"} tested, and the recording has no evidence for ${summary.tested.length === 1 ? "it" : "any of them"}. `
          : "No cause was tested. "}
        {summary.symptoms.length > 0
          ? "Something moved all the same; it is listed below."
          : "Nothing that is a symptom moved either."}
      </p>
      {lacks && (
        <p class="warning">
          The recording is not whole: <a href="#health">see what it lacks</a> before trusting this.
        </p>
      )}
    </div>
  );
}

const DOTS: Record<string, string> = { high: "●●●", medium: "●●○", low: "●○○" };

function Case(props: { finding: Finding; number: number; of: number }) {
  const { finding, number: n } = props;
  return (
    <article class={`case ${finding.confidence}`} id={`finding-${n}`} data-testid="finding">
      <p class="above">
        {props.of > 1 && <span>{`Finding ${n} of ${props.of}`}</span>}
        <code>{finding.cause}</code>
        <span>{finding.number}</span>
        <span class="confidence">
          <span aria-hidden="true">{DOTS[finding.confidence]}</span> {finding.confidence} confidence
        </span>
      </p>
      <h3>{finding.title}</h3>
      <p class="fix">{finding.fix}</p>
      <dl class="facts">
        {finding.facts.map(([label, text], i) => (
          <div key={label + i}>
            <dt>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {finding.because.length > 0 && (
        <>
          <h4>Why the confidence is {finding.confidence}</h4>
          <ul>
            {finding.because.map((reason, i) => (
              <li key={i}>{reason}</li>
            ))}
          </ul>
        </>
      )}
      {finding.advice.length > 0 && (
        <>
          <h4>What to do</h4>
          <ol class="advice">
            {finding.advice.map((advice, i) => (
              <Advised key={i} advice={advice} />
            ))}
          </ol>
        </>
      )}
      {finding.arithmetic.length > 0 && <Arithmetic checks={finding.arithmetic} />}
      {finding.verify !== "" && (
        <>
          <h4>How to check that it worked</h4>
          <p>{finding.verify}</p>
        </>
      )}
      <p class="onward">
        <a href={`#evidence-${n}`}>Walk the evidence, {plural(finding.steps.length, "step")} →</a>
      </p>
    </article>
  );
}

/** What holds as well, and cost too little to be a finding. */
function AlsoNoted({ noted }: { noted: Noted[] }) {
  return (
    <aside class="noted" data-testid="noted">
      <h3>Noted, no finding</h3>
      <ul>
        {noted.map((note, i) => (
          <li key={note.cause + i}>
            <p>
              {note.title} <code>{note.cause}</code>
            </p>
            <p class="faint">
              {note.at}: {note.because}
            </p>
          </li>
        ))}
      </ul>
    </aside>
  );
}

function Advised({ advice }: { advice: Advice }) {
  const lines: [string, string][] = [
    ["where", advice.at],
    ["effect", advice.expected],
    ["risk", advice.risk],
  ];
  return (
    <li>
      <p>{advice.action}</p>
      {advice.command !== null && <Code text={advice.command} />}
      <dl class="small">
        {lines
          .filter(([, text]) => text !== "")
          .map(([label, text]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{text}</dd>
            </div>
          ))}
      </dl>
    </li>
  );
}

function Arithmetic({ checks }: { checks: Check[] }) {
  return (
    <>
      <h4>Numbers that must fit</h4>
      <Table
        label="Numbers that must fit if the cause holds"
        heads={["", "compared", "expected", "measured", "fits when"]}
        rows={checks.map((check) => [
          <strong key="fits" class={check.agrees ? "good" : "bad"}>
            {check.agrees ? "✓ fits" : "✗ does not"}
          </strong>,
          <span key="what" class="wrap">
            {check.formula}
          </span>,
          check.expected,
          check.measured,
          check.tolerance,
        ])}
      />
    </>
  );
}

function Looked({ summary, open }: { summary: Overview; open: boolean }) {
  const { counts, symptoms, tested, cannot_tell: untold, waits } = summary;
  return (
    <details class="looked" open={open}>
      <summary>What was looked at</summary>
      {counts.length > 0 && (
        <dl class="counts">
          {counts.map(([label, value], i) => (
            <div key={label + i}>
              <dd>{value}</dd>
              <dt>{label}</dt>
            </div>
          ))}
        </dl>
      )}
      <h4>What moved</h4>
      {symptoms.length === 0 ? (
        <p>No counter of trouble moved.</p>
      ) : (
        <Table
          label="What moved"
          heads={["symptom", "how often"]}
          rows={symptoms.map(([says, often]) => [says, number(often)])}
        />
      )}
      {waits.length > 0 && (
        <>
          <h4>What ended waits</h4>
          <Table
            label="What ended waits"
            heads={["ended by", "waits", "longest"]}
            rows={waits.map(([kind, count, longest]) => [kind, number(count), duration(longest)])}
          />
        </>
      )}
      {untold.length > 0 && (
        <>
          <h4>Causes that cannot be told from this recording</h4>
          <ul>
            {untold.map(([id, why]) => (
              <li key={id}>
                <code>{id}</code> {why}
              </li>
            ))}
          </ul>
        </>
      )}
      {tested.length > 0 && (
        <>
          <h4>Causes that were tested</h4>
          <ul class="columns">
            {tested.map(([id, title]) => (
              <li key={id}>
                <code>{id}</code> {title}
              </li>
            ))}
          </ul>
        </>
      )}
    </details>
  );
}
