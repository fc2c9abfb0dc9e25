// Ports, tables, listeners and resources against their limits.
import { plural } from "../format";
import type { Limits as Data, Run } from "../page";
import { Empty, Section } from "../parts/section";
import { Meter, Table } from "../parts/table";

export function Limits({ run }: { run: Run }) {
  const near = run.limits.reduce((sum, limits) => sum + limits.telling, 0);
  return (
    <Section
      id="limits"
      lead="How full what has a limit was at most, the fullest first."
      fold={
        near === 0 ? "nothing came near to its limit" : `${plural(near, "thing")} at 10 % or more`
      }
    >
      {run.limits.length === 0 && (
        <Empty>Neither ports nor tables nor resources were recorded.</Empty>
      )}
      {run.limits.map((limits) => (
        <LimitTable key={limits.id} limits={limits} />
      ))}
    </Section>
  );
}

/** Things with what is known of each; how full it was, where it has a limit. What does not tell is closed. */
export function LimitTable({ limits }: { limits: Data }) {
  const rest = limits.rows.length - limits.telling;
  return (
    <div class="part">
      <h3>{limits.title}</h3>
      {limits.rows.length === 0 && <Empty>There was none.</Empty>}
      {limits.telling > 0 && <Rows limits={limits} rows={limits.rows.slice(0, limits.telling)} />}
      {rest > 0 && (
        <details>
          <summary>{`${plural(rest, "row")} below 10 % or without a limit`}</summary>
          <Rows limits={limits} rows={limits.rows.slice(limits.telling)} />
        </details>
      )}
      {limits.left_out > 0 && (
        <p class="note">{plural(limits.left_out, "row")} more in the recording.</p>
      )}
    </div>
  );
}

function Rows({ limits, rows }: { limits: Data; rows: Data["rows"] }) {
  const meters = rows.some(([, full]) => full !== null);
  return (
    <Table
      label={limits.title}
      heads={meters ? [...limits.columns, "full at most"] : limits.columns}
      rows={rows.map(([cells, full]) => [
        ...cells,
        ...(meters ? [full === null ? "" : <Meter key="full" full={full} />] : []),
      ])}
    />
  );
}
