// Ports, tables, listeners and resources against their limits.
import { plural } from "../format";
import type { Limits as Data, Run } from "../page";
import { Empty, Section } from "../parts/section";
import { Meter, Table } from "../parts/table";

export function Limits({ run }: { run: Run }) {
  return (
    <Section id="limits" lead="How full what has a limit was at most, the fullest first.">
      {run.limits.length === 0 && (
        <Empty>Neither ports nor tables nor resources were recorded.</Empty>
      )}
      {run.limits.map((limits) => (
        <LimitTable key={limits.id} limits={limits} />
      ))}
    </Section>
  );
}

/** Things with what is known of each; how full it was, where it has a limit. */
export function LimitTable({ limits }: { limits: Data }) {
  const meters = limits.rows.some(([, full]) => full !== null);
  return (
    <div class="part">
      <h3>{limits.title}</h3>
      {limits.rows.length === 0 ? (
        <Empty>There was none.</Empty>
      ) : (
        <Table
          label={limits.title}
          heads={meters ? [...limits.columns, "full at most"] : limits.columns}
          rows={limits.rows.map(([cells, full]) => [
            ...cells,
            ...(meters ? [full === null ? "" : <Meter key="full" full={full} />] : []),
          ])}
        />
      )}
      {limits.left_out > 0 && (
        <p class="note">{plural(limits.left_out, "row")} more in the recording.</p>
      )}
    </div>
  );
}
