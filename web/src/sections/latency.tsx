// How long connecting took: the distribution, its clusters, and the kernel's schedule over it.
import { useMemo } from "preact/hooks";
import { clusterText, histogram, isLog } from "../charts/histogram";
import { duration } from "../format";
import type { Latency, Run } from "../page";
import { Drawn } from "../parts/drawn";
import { Empty, Section } from "../parts/section";

export function Latencies({ run }: { run: Run }) {
  return (
    <Section id="latency">
      {run.latency ? (
        <Known latency={run.latency} />
      ) : (
        <Empty>No connection was seen to open while this was recorded, so none was timed.</Empty>
      )}
    </Section>
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
          <h3>Connections by how long they took to open</h3>
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
        <Drawn draw={drawn.draw} label={drawn.label} height={300} id="latency" />
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
