// What was looked at: what moved and what that means, what ended waits, which causes were tested.
import { duration, number, plural } from "../format";
import type { Overview, Symptom } from "../page";
import { CauseId } from "../parts/cause";
import { Table } from "../parts/table";

export function Symptoms({ symptoms }: { symptoms: Symptom[] }) {
  return (
    <Table
      label="What moved, and what it means"
      testid="symptoms"
      heads={["how often", "symptom, and what it means"]}
      rows={symptoms.map(({ says, count, means }) => [
        number(count),
        <div key="says" class="wrap">
          {says}
          {means !== "" && <div class="faint">{means}</div>}
        </div>,
      ])}
    />
  );
}

export function Looked({ summary }: { summary: Overview }) {
  const { counts, symptoms, tested, cannot_tell: untold, waits } = summary;
  return (
    <details class="looked">
      <summary>
        What was looked at: {plural(symptoms.length, "symptom")}, {plural(tested.length, "cause")}{" "}
        tested
      </summary>
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
        <Symptoms symptoms={symptoms} />
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
                <CauseId id={id} /> {why}
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
                <CauseId id={id} /> {title}
              </li>
            ))}
          </ul>
        </>
      )}
    </details>
  );
}
