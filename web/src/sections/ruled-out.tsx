// What else it could have been, and the number that rules each out.

import { plural } from "../format";
import type { Run } from "../page";
import { CauseId } from "../parts/cause";
import { Prose } from "../parts/prose";
import { Empty, Section } from "../parts/section";
import { Table } from "../parts/table";

export function RuledOut({ run }: { run: Run }) {
  const some = run.findings.filter((finding) => finding.ruled_out.length > 0);
  return (
    <Section
      id="ruled-out"
      fold={run.findings.length === 0 ? "there is no finding" : undefined}
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
        <details key={finding.cause + i} class="more" open={i === 0}>
          <summary>
            Instead of {finding.cause}: {plural(finding.ruled_out.length, "look-alike")}
          </summary>
          <Table
            label={`Ruled out beside ${finding.cause}`}
            heads={["not", "because"]}
            rows={finding.ruled_out.map(([id, title, because]) => [
              <span key="what" class="wrap">
                {title} <CauseId id={id} />
              </span>,
              <span key="why" class="wrap">
                <Prose text={because} />
              </span>,
            ])}
          />
        </details>
      ))}
    </Section>
  );
}
