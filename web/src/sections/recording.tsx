// How it was recorded: the host, the command, a model's parameters, namespaces, what it cost.
import { clock, duration } from "../format";
import type { Run } from "../page";
import { Section } from "../parts/section";
import { Table } from "../parts/table";

export function Recording({ run }: { run: Run }) {
  const { facts } = run;
  const lines: [string, string][] = [
    ["recording", run.name],
    ["host", facts.host],
    ["kernel", `${facts.kernel}, ${facts.machine}`],
    ["CPUs", String(facts.cpus)],
    ["timer", facts.hz === null ? "not known" : `${facts.hz} ticks per second`],
    ["made by", facts.producer],
    ["recorded by", `tcpwhy ${facts.tcpwhy}`],
    ["began", clock(facts.start_unix_ms)],
    ["length", duration(facts.length_s * 1000)],
    [
      "ended",
      facts.complete ? "by the recorder itself" : "abruptly: the last seconds may be missing",
    ],
    ["command", facts.command_line.join(" ")],
  ];
  return (
    <Section
      id="recording"
      fold={`kernel ${facts.kernel}, ${facts.cpus} CPUs, tcpwhy ${facts.tcpwhy}`}
    >
      <dl class="facts">
        {lines
          .filter(([, text]) => text !== "")
          .map(([label, text]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{label === "command" ? <code>{text}</code> : text}</dd>
            </div>
          ))}
      </dl>
      {facts.parameters.length > 0 && (
        <>
          <h3>Parameters of the model</h3>
          <Table
            label="Parameters of the model"
            heads={["name", "value"]}
            rows={facts.parameters}
          />
        </>
      )}
      {facts.namespaces.length > 0 && (
        <>
          <h3>Network namespaces</h3>
          <Table
            label="Network namespaces"
            heads={["inode", "name"]}
            rows={facts.namespaces.map(([inode, name]) => [String(inode), name])}
          />
        </>
      )}
      {facts.cost.length > 0 && (
        <>
          <h3>What recording cost</h3>
          <ul>
            {facts.cost.map((says, i) => (
              <li key={i}>{says}</li>
            ))}
          </ul>
        </>
      )}
    </Section>
  );
}
