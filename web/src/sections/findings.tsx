// The findings as case reports: what to do, where, how sure; the first is open.
import { plural } from "../format";
import type { Advice, Check, Finding, Noted, Run } from "../page";
import { CauseId } from "../parts/cause";
import { Code } from "../parts/code";
import { Prose } from "../parts/prose";
import { Section } from "../parts/section";
import { Table } from "../parts/table";
import { Looked, Symptoms } from "./looked";

export function Findings({ run }: { run: Run }) {
  const { findings } = run;
  return (
    <Section id="findings">
      {findings.length === 0 && <Nothing run={run} />}
      {findings.map((finding, i) =>
        i === 0 ? (
          <Case key={0} finding={finding} of={findings.length} number={1} />
        ) : (
          <details key={i} id={`finding-${i + 1}`} class="more">
            <summary>
              {i + 1}. {finding.layer}: {finding.fix.replaceAll("`", "")}
            </summary>
            <Case finding={finding} of={findings.length} number={i + 1} />
          </details>
        ),
      )}
      {run.noted.length > 0 && <AlsoNoted noted={run.noted} />}
      <Looked summary={run.summary} />
    </Section>
  );
}

/** No cause holds: what moved all the same, with what it means. The verdict is above. */
function Nothing({ run }: { run: Run }) {
  const { summary, facts } = run;
  const lacks = run.health.some((note) => note.hole) || !facts.complete;
  const one = summary.tested.length === 1;
  return (
    <div class={`nothing ${run.verdict.kind}`} data-testid="no-cause">
      <p>
        {summary.tested.length > 0
          ? `${plural(summary.tested.length, "cause")} ${one ? "was" : "were"} tested, and the recording has no evidence for ${one ? "it" : "any of them"}.`
          : "No cause was tested."}
      </p>
      {summary.symptoms.length > 0 && <Symptoms symptoms={summary.symptoms} />}
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
  const [first, ...others] = finding.advice;
  const own = { "--own": `var(--f${(n - 1) % 6})` };
  return (
    <article class="case" style={own} id={n === 1 ? "finding-1" : undefined} data-testid="finding">
      <p class="above">
        {props.of > 1 && <span>{`Finding ${n} of ${props.of}`}</span>}
        <CauseId id={finding.cause} numbered />
        <span class="confidence" title={finding.because.join("; ")}>
          <span aria-hidden="true">{DOTS[finding.confidence]}</span> {finding.confidence} confidence
        </span>
      </p>
      <h3>
        <Prose text={finding.fix} />
      </h3>
      {first && <Advised advice={first} said={finding.fix} />}
      {others.length > 0 && (
        <details>
          <summary>Or, {plural(others.length, "other way", "other ways")}</summary>
          <ol class="advice" start={2}>
            {others.map((advice, i) => (
              <li key={i}>
                <Advised advice={advice} said="" />
              </li>
            ))}
          </ol>
        </details>
      )}
      <dl class="facts">
        {finding.facts.map(([label, text], i) => (
          <div key={label + i}>
            <dt>{label}</dt>
            <dd>{label === "command" ? <Long text={text} /> : text}</dd>
          </div>
        ))}
        {finding.because.length > 0 && (
          <div>
            <dt>confidence</dt>
            <dd>
              <Prose text={`${finding.confidence}: ${finding.because.join("; ")}`} />
            </dd>
          </div>
        )}
        {finding.verify !== "" && (
          <div>
            <dt>to check</dt>
            <dd>
              <Prose text={finding.verify} />
            </dd>
          </div>
        )}
      </dl>
      {finding.arithmetic.length > 0 && <CrossChecks checks={finding.arithmetic} />}
      <p class="onward">
        <a href={`#evidence-${n}`}>Walk the evidence, {plural(finding.steps.length, "step")} →</a>
      </p>
    </article>
  );
}

/** So many characters of a command line tell whose it is. */
const LONG = 120;

/** A command line, of which the rest is behind a click. */
function Long({ text }: { text: string }) {
  if (text.length <= LONG) return <code>{text}</code>;
  return (
    <details class="long">
      <summary>
        <code>{`${text.slice(0, LONG - 20)}…`}</code>
      </summary>
      <code>{text}</code>
    </details>
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
              <Prose text={note.title} /> <CauseId id={note.cause} />
            </p>
            <p class="faint">
              {note.at}: <Prose text={note.because} />
            </p>
          </li>
        ))}
      </ul>
    </aside>
  );
}

function Advised({ advice, said }: { advice: Advice; said: string }) {
  const lines: [string, string][] = [
    ["where", advice.at],
    ["effect", advice.expected],
    ["risk", advice.risk],
  ];
  return (
    <div class="advised">
      {advice.action !== said && (
        <p>
          <Prose text={advice.action} />
        </p>
      )}
      {advice.command !== null && <Code text={advice.command} kind={advice.kind} />}
      <dl class="small">
        {lines
          .filter(([, text]) => text !== "")
          .map(([label, text]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>
                <Prose text={text} />
              </dd>
            </div>
          ))}
      </dl>
    </div>
  );
}

/** Numbers of different sources that must agree if the cause holds. */
function CrossChecks({ checks }: { checks: Check[] }) {
  const wrong = checks.filter((check) => !check.agrees).length;
  return (
    <details open={wrong > 0}>
      <summary>
        CROSS-CHECKS: {checks.length - wrong} ok
        {wrong > 0 ? `, ${plural(wrong, "mismatch", "mismatches")}` : ""}
      </summary>
      <Table
        label="Cross-checks: numbers that must agree if the cause holds"
        heads={["", "compared", "expected", "measured", "fits when"]}
        rows={checks.map((check) => [
          <strong key="fits" class={check.agrees ? "good" : "bad"}>
            {check.agrees ? "ok" : "mismatch"}
          </strong>,
          <span key="what" class="wrap">
            <Prose text={check.formula} />
          </span>,
          check.expected,
          check.measured,
          check.tolerance,
        ])}
      />
    </details>
  );
}
