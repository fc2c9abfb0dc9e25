// Tables, which scroll by themselves when they are wider than the page.
import type { ComponentChildren } from "preact";

/** Rows under headings; `label` names the table. */
export function Table(props: {
  label: string;
  heads: ComponentChildren[];
  rows: ComponentChildren[][];
  testid?: string;
}) {
  const right = props.heads.map((_, c) => isNumeric(props.rows.map((row) => row[c])));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
    <div class="scroll" role="group" tabIndex={0} aria-label={props.label}>
      <table data-testid={props.testid}>
        <thead>
          <tr>
            {props.heads.map((head, i) => (
              <th key={i} scope="col" class={right[i] ? "num" : undefined}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, c) => (
                <td key={c} class={right[c] ? "num" : undefined}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Columns of numbers, perhaps with units, are set to the right. */
function isNumeric(cells: ComponentChildren[]): boolean {
  const texts = cells.filter((cell) => typeof cell === "string" && !NOTHING.has(cell)) as string[];
  return texts.length > 0 && texts.every((text) => NUMBER.test(text));
}

const NOTHING = new Set(["", "-", "none"]);
const NUMBER = /^[+−-]?\d[\d,]*(\.\d+)?( ?[%\p{L}/]{1,8}){0,2}$/u;

/** How full something is: a bar and the number; `full` is 1 at the limit. */
export function Meter(props: { full: number }) {
  const share = Math.max(0, props.full);
  const look = share >= 0.95 ? "full" : share >= 0.75 ? "near" : "";
  const text = `${share < 0.0995 ? (share * 100).toFixed(1) : Math.round(share * 100)} %`;
  return (
    <span class={`meter ${look}`}>
      <span class="bar" aria-hidden="true">
        <span style={{ width: `${Math.min(share, 1) * 100}%` }} />
      </span>
      {text}
    </span>
  );
}
