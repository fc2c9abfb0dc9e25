// What else it could have been, and the number that rules each out.

import type { Run } from "../page";
import { Empty, Section } from "../parts/section";
import { Table } from "../parts/table";

export function RuledOut({ run }: { run: Run }) {
  const some = run.findings.filter((finding) => finding.ruled_out.length > 0);
  return (
    <Section
      id="ruled-out"
      lead="Look-alikes with the same symptoms, and what the recording says against each."
    >
      {some.length === 0 && (
        <Empty>
          {run.findings.length === 0
            ? "There is no finding whose look-alikes would have to be ruled out; what was tested is listed under Findings."
            : "The causes that were found have no look-alike."}
        </Empty>
      )}
      {some.map((finding, i) => (
        <div key={finding.cause + i} class="part">
          {run.findings.length > 1 && <h3>{finding.title}</h3>}
          <Table
            label={`Ruled out beside ${finding.cause}`}
            heads={["not", "because"]}
            rows={finding.ruled_out.map(([id, title, because]) => [
              <span key="what" class="wrap">
                {title} <code class="faint">{id}</code>
              </span>,
              <span key="why" class="wrap">
                {because}
              </span>,
            ])}
          />
        </div>
      ))}
    </Section>
  );
}
