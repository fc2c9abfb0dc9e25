// The rows of the recording behind a step, by table, with what their columns mean.
import { moment, plural } from "../format";
import type { EvidenceRow, Run, TableDoc } from "../page";
import { Prose } from "../parts/prose";
import { Table } from "../parts/table";
import type { GoTo } from "./chain";

/** Columns that say little: `when` is the time, and addresses are told by themselves. */
const LAST = ["family", "netns", "sock", "time_ns"];

export function Rows(props: { run: Run; names: string[]; goTo: GoTo }) {
  const { run, names, goTo } = props;
  const known = names.filter((name) => Object.hasOwn(run.rows, name));
  if (known.length === 0) {
    return <p class="empty">No row of the recording is shown for this step.</p>;
  }
  const tables = new Map<string, [string, EvidenceRow][]>();
  for (const name of known) {
    const row = run.rows[name];
    if (row) tables.set(row.table, [...(tables.get(row.table) ?? []), [name, row]]);
  }
  return (
    <details data-testid="step-rows">
      <summary>{plural(known.length, "row")} of the recording behind it</summary>
      {[...tables].map(([table, rows]) => {
        const doc = Object.hasOwn(run.tables, table) ? run.tables[table] : undefined;
        return <OneTable key={table} table={table} doc={doc} rows={rows} goTo={goTo} />;
      })}
      {known.length < names.length && (
        <p class="faint">{plural(names.length - known.length, "row")} more in the recording.</p>
      )}
    </details>
  );
}

/** The same a line per row, for paper. */
export function RowsInWords({ run, names }: { run: Run; names: string[] }) {
  const known = names.filter((name) => Object.hasOwn(run.rows, name));
  if (known.length === 0) return null;
  return (
    <ul class="small">
      {known.map((name) => {
        const row = run.rows[name];
        const cells = row?.cells.map(([column, value]) => `${column} ${value}`).join(", ");
        return <li key={name}>{`${name} at ${moment(row?.time_s ?? Number.NaN)}: ${cells}`}</li>;
      })}
    </ul>
  );
}

function OneTable(props: {
  table: string;
  doc: TableDoc | undefined;
  rows: [string, EvidenceRow][];
  goTo: GoTo;
}) {
  const { table, doc, rows } = props;
  const about = new Map(doc?.columns.map(([name, unit, says]) => [name, { unit, says }]));
  const all = [...new Set(rows.flatMap(([, row]) => row.cells.map(([name]) => name)))];
  // What only tells rows apart comes last.
  const columns = [
    ...all.filter((name) => !LAST.includes(name)),
    ...all.filter((name) => LAST.includes(name)),
  ];
  const tell = (name: string) => {
    const column = about.get(name);
    return column ? `${column.says}${column.unit ? ` (${column.unit})` : ""}` : name;
  };
  return (
    <>
      <h5>
        {plural(rows.length, "row")} of <code>{table}</code>
        {doc && (
          <span class="faint">
            {" "}
            <Prose text={doc.doc} />
          </span>
        )}
      </h5>
      <Table
        label={`Rows of ${table}`}
        heads={[
          "row",
          "when",
          ...columns.map((name) => (
            <abbr key={name} title={tell(name)}>
              {name}
            </abbr>
          )),
        ]}
        rows={rows.map(([name, row]) => {
          const cells = new Map(row.cells);
          return [
            <code key="name">{name}</code>,
            <button key="when" type="button" class="link" onClick={() => props.goTo(row.time_s)}>
              {moment(row.time_s)}
            </button>,
            ...columns.map((column) => cells.get(column) ?? ""),
          ];
        })}
      />
      <details>
        <summary>What the columns mean</summary>
        <dl class="small">
          {columns.map((name) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <Prose text={tell(name)} />
              </dd>
            </div>
          ))}
        </dl>
      </details>
    </>
  );
}
