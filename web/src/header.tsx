// The head of the page: whose trouble it is, what is wrong, of which host, when; which recording; light or dark.
import type { ComponentChildren } from "preact";
import { clock, localWindow, withUnit } from "./format";
import type { Course, Finding, Page, Run } from "./page";
import { Copy } from "./parts/copy";
import { Prose } from "./parts/prose";
import { lostIn } from "./sections/health";
import { WholeTime } from "./sections/services";
import { courseOfNothing, HIGH, sparkLine, stretch, WIDE } from "./spark";

/** Sentences of a comparison that are in the head. */
const SAID = 8;
/** Findings that have a picture; the others have a line. */
const PICTURED = 3;

export function Header(props: {
  page: Page;
  run: Run;
  which: number;
  choose: (run: number) => void;
  dark: boolean;
  setDark: (dark: boolean) => void;
  help: () => void;
}) {
  const { page, run } = props;
  const { facts, verdict, findings } = run;
  const compared = page.comparison;
  const lost = lostIn(run);
  return (
    <header class="top">
      <div class="bar">
        <p class="brand">
          tcpwhy · <b>{facts.host}</b> ·{" "}
          <span title={clock(facts.start_unix_ms)}>
            {localWindow(facts.start_unix_ms, facts.length_s)}
          </span>
          {facts.producer === "live" ? "" : ` · ${facts.producer}`}
        </p>
        <div class="tools">
          {page.runs.length > 1 && (
            <label>
              recording
              <select
                value={props.which}
                onChange={(event) => props.choose(Number(event.currentTarget.value))}
                data-testid="run-choice"
              >
                {page.runs.map((each, i) => (
                  <option key={i} value={i}>
                    {each.name}
                  </option>
                ))}
              </select>
            </label>
          )}
          <Copy
            text={compared?.ticket ?? verdict.ticket}
            label="Copy as Markdown"
            testid="ticket"
          />
          <button type="button" onClick={() => props.setDark(!props.dark)} data-testid="theme">
            {props.dark ? "Light" : "Dark"}
          </button>
          <button type="button" onClick={props.help} aria-label="How to read this page, and keys">
            ?
          </button>
        </div>
      </div>
      {compared && (
        <>
          <div class="answer compared" data-testid="comparison">
            <h1>
              <Prose text={compared.headline} />
            </h1>
            {compared.says.slice(0, SAID).map((says, i) => (
              <p key={i} class="also">
                <Prose text={says} />
              </p>
            ))}
            <p class="also">
              <a href="#differs">All that differs</a>
            </p>
          </div>
          <p class="of">
            What <b>{run.name}</b> says by itself:
          </p>
        </>
      )}
      <div class={`answer ${verdict.kind}`} data-testid="verdict">
        {verdict.layer !== "" && findings.length < 2 && <p class="layer">{verdict.layer}</p>}
        {compared ? (
          <h2>
            <Prose text={verdict.says} />
          </h2>
        ) : (
          <h1>
            <Prose text={verdict.says} />
          </h1>
        )}
        {verdict.also !== "" && <p class="also">{verdict.also}</p>}
        {findings.length === 1 && findings[0] && <Cost finding={findings[0]} />}
        {findings.length === 0 && <Picture run={run} course={courseOfNothing(run.timelines)} />}
      </div>
      {findings.length === 1 && findings[0] && (
        <Picture run={run} course={findings[0].course} spans={findings[0].spans} />
      )}
      {findings.length > 1 && (
        <ol class="problems">
          {findings.map((finding, i) => (
            <li key={i} style={{ "--own": `var(--f${i % 6})` }}>
              <p class="layer">{finding.layer}</p>
              <a href={`#finding-${i + 1}`} class="what">
                <Title text={finding.title} />
              </a>
              <Cost finding={finding} />
              {i < PICTURED && (
                <Picture run={run} course={finding.course} spans={finding.spans} of={i} />
              )}
            </li>
          ))}
        </ol>
      )}
      {verdict.time !== "" && (
        <div class="went">
          <p>
            <b>Where the time went</b> {verdict.time}
          </p>
          <WholeTime run={run} />
        </div>
      )}
      {verdict.unexplained.map((says, i) => (
        <p key={i} class="warning">
          {says}
        </p>
      ))}
      {(lost > 0 || !facts.complete) && (
        <p class="warning">
          This recording is not whole
          {lost > 0 ? `: ${lost.toLocaleString("en-US")} records were lost` : ": it ended abruptly"}
          . <a href="#health">What it lacks</a>
        </p>
      )}
    </header>
  );
}

/** Inside a link there is no button. */
function Title({ text }: { text: string }): ComponentChildren {
  return text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part));
}

/** What a finding cost. */
function Cost({ finding }: { finding: Finding }) {
  return (
    <p class="cost">
      {finding.lost !== "" && <b>{finding.lost}. </b>}
      <Prose text={finding.impact} />
    </p>
  );
}

/** The course of a symptom, with the stretches in which the finding holds. */
function Picture(props: {
  run: Run;
  course: Course | null;
  spans?: [number, number][];
  of?: number;
}) {
  const { run, course } = props;
  const spans = props.spans ?? [];
  const { timelines, facts } = run;
  const line = course ? sparkLine(course, timelines) : null;
  if (!line && spans.length === 0) return null;
  const length = Math.max(facts.length_s, timelines.bins * timelines.bin_s) || 1;
  const [first, last] = [spans[0]?.[0], spans.at(-1)?.[1]];
  const when =
    first === undefined || last === undefined
      ? ""
      : `seen from ${withUnit(first, "s")} to ${withUnit(last, "s")}`;
  const label = line
    ? `${course?.says}, at most ${withUnit(line.most, line.unit)}${when && `; ${when}`}.`
    : `When it was seen: ${when}.`;
  return (
    <figure class="spark" style={{ "--own": spans.length > 0 ? `var(--f${props.of ?? 0})` : "" }}>
      <svg
        viewBox={`0 0 ${WIDE} ${HIGH}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
        data-testid="spark"
      >
        {spans.map((span, i) => {
          const [left, right] = stretch(span, length);
          return <rect key={i} x={left} y="0" width={right - left} height={HIGH} />;
        })}
        {line && <path d={line.path} />}
      </svg>
      <figcaption>
        <span>0 s</span>
        <span>
          {line ? `${course?.says}, at most ${withUnit(line.most, line.unit)}` : ""}
          {when && <b>{` ${when}`}</b>}
        </span>
        <span>{withUnit(length, "s")}</span>
      </figcaption>
    </figure>
  );
}
