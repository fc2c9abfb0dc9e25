// The sockets that match, as a table with their last values.
import { useMemo, useState } from "preact/hooks";
import { plural, withUnit } from "../format";
import type { Sockets } from "../page";
import { Table } from "../parts/table";
import { lastValue, type Samples, worst } from "../sockets-model";

/** As many are listed. */
const LISTED = 200;

export function SocketTable(props: {
  data: Sockets;
  samples: Samples;
  shown: number[];
  choose: (socket: number) => void;
}) {
  const { data, samples, shown } = props;
  // The measure that orders the table; null: the worst first.
  const [by, sortBy] = useState<number | null>(null);
  const listed = useMemo(() => {
    if (by === null) return worst(data, samples, shown).slice(0, LISTED);
    const key = (i: number) => {
      const [socket, values] = [data.sockets[i], samples.values[by]];
      const value = socket && values ? lastValue(socket, values) : Number.NaN;
      return Number.isNaN(value) ? Number.NEGATIVE_INFINITY : value;
    };
    const keys = new Map(shown.map((i) => [i, key(i)]));
    return [...shown]
      .sort((a, b) => (keys.get(b) ?? 0) - (keys.get(a) ?? 0) || a - b)
      .slice(0, LISTED);
  }, [data, samples, shown, by]);
  return (
    <details class="sockets">
      <summary>
        {shown.length > LISTED
          ? `The first ${LISTED} of ${plural(shown.length, "socket")}, last values`
          : `${plural(shown.length, "socket")}, last values`}
      </summary>
      <Table
        label="Sockets that match, with their last values"
        testid="socket-table"
        heads={[
          "socket",
          ...data.attributes,
          ...data.measures.map((measure, m) => (
            <button
              key={m}
              type="button"
              class="link"
              aria-pressed={by === m}
              onClick={() => sortBy(by === m ? null : m)}
            >
              {measure.name}
              {by === m ? " ↓" : ""}
            </button>
          )),
        ]}
        rows={listed.map((i) => {
          const socket = data.sockets[i];
          if (!socket) return [];
          return [
            <button key="name" type="button" class="link" onClick={() => props.choose(i)}>
              {socket.outlier && <b class="bad">outlier </b>}
              {socket.name}
            </button>,
            ...data.attributes.map((_, a) => socket.attributes[a] ?? ""),
            ...data.measures.map((measure, m) => {
              const value = lastValue(socket, samples.values[m] ?? new Float64Array());
              return withUnit(value, measure.unit);
            }),
          ];
        })}
      />
    </details>
  );
}
