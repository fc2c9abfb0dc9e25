// The chain of evidence of one finding: a picture whose steps are walked by pointer or keyboard.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Finding, Run, Step } from "../page";
import { Icon, kindName } from "../parts/icon";
import { Prose } from "../parts/prose";
import { Rows, RowsInWords } from "./rows";

/** What `j` and `k` walk: the chain that was last touched, else the first. */
let touched: ((by: number) => void) | null = null;
const chains = new Set<(by: number) => void>();

/** Walks the chain last touched, or the first one of the page. */
export function walkChain(by: number): void {
  const walk = touched && chains.has(touched) ? touched : [...chains][0];
  walk?.(by);
}

export function Chain(props: { run: Run; finding: Finding; number: number; goTo: GoTo }) {
  const { finding, run } = props;
  const [at, setAt] = useState(0);
  const nodes = useRef<(HTMLButtonElement | null)[]>([]);
  const detail = useRef<HTMLDivElement>(null);
  const last = finding.steps.length - 1;
  const go = (to: number) => {
    const next = Math.min(Math.max(to, 0), last);
    setAt(next);
    nodes.current[next]?.focus();
  };
  const walk = useRef((_by: number) => {});
  walk.current = (by) => go(at + by);
  const stable = useRef((by: number) => walk.current(by));
  useEffect(() => {
    const own = stable.current;
    chains.add(own);
    return () => {
      chains.delete(own);
    };
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last }[event.key];
    if (to !== undefined) go(to);
    else if (event.key === "Enter") {
      // A press of the key is a click as well; what is behind the step gets the focus after it.
      const which = nodes.current.indexOf(event.target as HTMLButtonElement);
      if (which < 0) return;
      setAt(which);
      detail.current?.focus();
    } else return;
    event.preventDefault();
  };
  const step = finding.steps[at];
  return (
    <div class="chain" data-testid="chain">
      <ol
        onKeyDown={onKeyDown}
        onFocusIn={() => {
          touched = stable.current;
        }}
      >
        {finding.steps.map((each, i) => (
          <li key={i}>
            <button
              type="button"
              ref={(element) => {
                nodes.current[i] = element;
              }}
              class={`node kind-${each.kind}`}
              aria-current={i === at ? "step" : undefined}
              tabIndex={i === at ? 0 : -1}
              onClick={() => setAt(i)}
              data-testid="chain-step"
            >
              <span class="head">
                <Icon kind={each.kind} />
                <span>{kindName(each.kind)}</span>
                <span class="nth">{i + 1}</span>
              </span>
              <span class="says">{each.says.replaceAll("`", "")}</span>
            </button>
            {i < last && (
              <svg class="arrow" viewBox="0 0 24 24" aria-hidden="true">
                <path d="M2 12h18M14 6l6 6l-6 6" />
              </svg>
            )}
          </li>
        ))}
      </ol>
      {step && (
        <div
          class="detail"
          ref={detail}
          tabIndex={-1}
          aria-live="polite"
          data-testid="step-detail"
          data-step={at + 1}
        >
          <Detail run={run} step={step} number={at + 1} of={last + 1} goTo={props.goTo} />
          <p class="walk">
            <button type="button" disabled={at === 0} onClick={() => setAt(at - 1)}>
              ← Back
            </button>
            <button type="button" disabled={at === last} onClick={() => setAt(at + 1)}>
              Next →
            </button>
          </p>
        </div>
      )}
      <ol class="for-print">
        {finding.steps.map((each, i) => (
          <li key={i}>
            {each.says}
            {each.numbers.length > 0 && (
              <span class="faint"> ({each.numbers.map(([n, v]) => `${n}: ${v}`).join(", ")})</span>
            )}
            <RowsInWords run={run} names={each.rows} />
          </li>
        ))}
      </ol>
    </div>
  );
}

/** Takes the reader to a moment of the time lines, s. */
export type GoTo = (at: number) => void;

function Detail(props: { run: Run; step: Step; number: number; of: number; goTo: GoTo }) {
  const { step } = props;
  return (
    <>
      <p class="faint">
        Step {props.number} of {props.of}: {kindName(step.kind).toLowerCase()}
      </p>
      <p class="full">
        <Prose text={step.says} />
      </p>
      {step.numbers.length > 0 && (
        <dl class="counts">
          {step.numbers.map(([name, value], i) => (
            <div key={name + i}>
              <dd>{value}</dd>
              <dt>{name}</dt>
            </div>
          ))}
        </dl>
      )}
      <Rows run={props.run} names={step.rows} goTo={props.goTo} />
    </>
  );
}
