// The head of the page: of what host, when, how long; which recording; light or dark.
import { clock, duration } from "./format";
import type { Page, Run } from "./page";
import { lostIn } from "./sections/health";

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
  const { facts } = run;
  const lost = lostIn(run);
  const facets = [
    `kernel ${facts.kernel}`,
    clock(facts.start_unix_ms),
    duration(facts.length_s * 1000),
    facts.producer === "live" ? "live host" : facts.producer,
  ];
  return (
    <header class="top">
      <div>
        <p class="brand">tcpwhy report</p>
        <h1>{facts.host}</h1>
        <p class="facets">
          {facets.map((text, i) => (
            <span key={i}>{text}</span>
          ))}
        </p>
      </div>
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
        <button type="button" onClick={() => props.setDark(!props.dark)} data-testid="theme">
          {props.dark ? "Light" : "Dark"}
        </button>
        <button type="button" onClick={props.help} aria-label="Keys">
          ?
        </button>
      </div>
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
