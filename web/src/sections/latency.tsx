// How long connecting took: the distribution, its clusters, and the kernel's schedule over it.
import { useMemo } from "preact/hooks";
import { clusterText, histogram, isLog } from "../charts/histogram";
import { duration, number } from "../format";
import type { Latency, Run, Services } from "../page";
import { Drawn } from "../parts/drawn";
import { Empty, Section } from "../parts/section";
import { Table } from "../parts/table";

export function Latencies({ run }: { run: Run }) {
  return (
    <Section id="latency" fold={summary(run)}>
      <h3>Connect time</h3>
      {run.latency ? (
        <Known latency={run.latency} />
      ) : (
        <Empty>No connection was seen to open while this was recorded, so none was timed.</Empty>
      )}
      {run.services && <Responses data={run.services} />}
    </Section>
  );
}

/** Connect and response time in a line. */
function summary(run: Run): string {
  const ms = (name: string) => run.latency?.percentiles.find(([p]) => p === name)?.[1];
  const [p50, p99] = [ms("p50"), ms("p99")];
  const connect =
    p50 !== undefined && p99 !== undefined
      ? [`connect time p50 ${duration(p50)}, p99 ${duration(p99)}`]
      : [];
  const first = run.services?.services.find((service) => service.p50_ms !== null);
  const response =
    first && first.p50_ms !== null && first.p99_ms !== null
      ? [
          `response time of ${first.at} p50 ${duration(first.p50_ms)}, p99 ${duration(first.p99_ms)}`,
        ]
      : [];
  return [...connect, ...response].join("; ") || "nothing was timed";
}

/** How long requests waited for their answer, by service. */
function Responses({ data }: { data: Services }) {
  const timed = data.services.filter((service) => service.p50_ms !== null);
  if (timed.length === 0) return null;
  const ms = (value: number | null) => (value === null ? "" : duration(value));
  return (
    <>
      <h3>Response time</h3>
      <p class="lead">
        From the first byte of a request to the last of its answer: a client counts until it has
        read it.
      </p>
      <Table
        label="Response time by listener and destination"
        testid="responses"
        heads={["listener or destination", "requests", "p50", "p90", "p99"]}
        rows={timed.map((service) => [
          `${service.serves ? "serves" : "asks"} ${service.at}`,
          number(service.exchanges),
          ms(service.p50_ms),
          ms(service.p90_ms),
          ms(service.p99_ms),
        ])}
      />
    </>
  );
}

function Known({ latency }: { latency: Latency }) {
  const drawn = useMemo(() => histogram(latency), [latency]);
  return (
    <>
      <p class="lead">{latency.says}</p>
      <dl class="counts">
        {latency.percentiles.map(([name, ms], i) => (
          <div key={name + i}>
            <dd>{duration(ms)}</dd>
            <dt>{name}</dt>
          </div>
        ))}
      </dl>
      <figure class="chart">
        <figcaption>
          <h4>Connections by how long they took to open</h4>
          <span class="faint">
            {isLog(latency) ? "both scales logarithmic" : "time logarithmic"}
          </span>
          {latency.schedule_ms.length > 0 && (
            <span class="legend">
              <span class="key schedule">
                <i />
                when an unanswered SYN is retransmitted
              </span>
            </span>
          )}
        </figcaption>
        <Drawn draw={drawn.draw} label={drawn.label} height={260} id="latency" />
      </figure>
      {latency.clusters.length > 0 && (
        <>
          <h4>Clusters: the time in the middle, how many, and which SYN was answered</h4>
          <ul>
            {latency.clusters.map((cluster, i) => (
              <li key={i}>{clusterText(cluster)}</li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
