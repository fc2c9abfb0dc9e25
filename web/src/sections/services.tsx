// Whose time the requests of each service took: a bar for each, its course over time, and the same as numbers.
import { duration, number, percent, plural } from "../format";
import type { Services as Data, Part, Run, ServiceTime, Whose } from "../page";
import { Empty, Section } from "../parts/section";
import { Table } from "../parts/table";

/** Whose time it was, in words. */
const WHOSE: Record<Whose, string> = {
  application: "application",
  tcp: "TCP on this host",
  network: "network",
  "network-or-peer": "network or peer",
  peer: "peer",
};
/** A smaller share of the page's width has no room for its name. */
const NAMED = 0.13;
/** A smaller share is not told in words. */
const TOLD = 0.005;
/** So many are seen at once: the findings come next. */
const OPEN = 2;
/** Fewer parts of the recording than this are no course. */
const COURSE = 3;

export function Services({ run }: { run: Run }) {
  return (
    <Section id="services">
      {run.services ? (
        <Known data={run.services} />
      ) : (
        <Empty>
          No requests were recorded, or there were none: <code>tcpwhy explain</code> records them,
          and <code>tcpwhy record --with requests</code>.
        </Empty>
      )}
    </Section>
  );
}

function Known({ data }: { data: Data }) {
  const { parts, services } = data;
  const most = Math.max(...services.map(total));
  const shown = (service: ServiceTime) => (
    <Service key={keyOf(service)} service={service} data={data} most={most} />
  );
  const present = parts.map((_, i) => services.some((s) => (s.spent_s[i] ?? 0) > 0));
  return (
    <>
      <p class="lead">
        The time of all requests by what it went with; bars are as long as the time.
        {services.some(hasCourse) &&
          ` Below each the same over the recording, ${number(data.width_s)} s to a column.`}
      </p>
      <Legend parts={parts} present={present} />
      {services.slice(0, OPEN).map(shown)}
      {services.length > OPEN && (
        <details>
          <summary>
            {plural(
              services.length - OPEN,
              "more listener or destination",
              "more listeners and destinations",
            )}
          </summary>
          {services.slice(OPEN).map(shown)}
        </details>
      )}
      <details>
        <summary>The same as numbers</summary>
        <Table
          label="Whose time requests took, by listener and destination"
          testid="services-table"
          heads={[
            "listener or destination",
            "requests",
            "per s",
            "p50",
            "p99",
            "time",
            ...parts.filter((_, i) => present[i]).map((part) => part.name),
          ]}
          rows={services.map((service) => [
            `${service.serves ? "serves" : "asks"} ${service.at}`,
            number(service.exchanges),
            number(service.per_s),
            service.p50_ms === null ? "" : duration(service.p50_ms),
            service.p99_ms === null ? "" : duration(service.p99_ms),
            duration(total(service) * 1000),
            ...parts
              .map((_, i) => share(service.spent_s, i))
              .filter((_, i) => present[i])
              .map((s) => (s < 0.0005 ? "" : percent(s))),
          ])}
        />
      </details>
    </>
  );
}

/** The bar of the service whose requests took most time: where it went at a glance. */
export function WholeTime({ run }: { run: Run }) {
  const [first] = run.services?.services ?? [];
  if (!run.services || !first) return null;
  return (
    <div class="service">
      <Bar service={first} parts={run.services.parts} long={1} />
    </div>
  );
}

function Legend({ parts, present }: { parts: Part[]; present: boolean[] }) {
  const groups = [...new Set(parts.map((part) => part.whose))];
  return (
    <div class="legend whose">
      {groups.map((whose) => {
        const own = parts
          .map((part, i) => ({ part, i }))
          .filter(({ part, i }) => part.whose === whose && present[i]);
        if (own.length === 0) return null;
        return (
          <span key={whose} class="group">
            <b>{WHOSE[whose]}</b>
            {own.map(({ part, i }) => (
              <span key={part.name} class="key">
                <i style={{ background: `var(--part-${i})` }} />
                {part.name === WHOSE[whose] ? "" : part.name}
              </span>
            ))}
          </span>
        );
      })}
    </div>
  );
}

function Service(props: { service: ServiceTime; data: Data; most: number }) {
  const { service, data, most } = props;
  const all = total(service);
  const long = most > 0 ? all / most : 0;
  return (
    <div class="service" data-testid="service">
      <div class="of">
        <span>
          {service.serves ? "serves " : "asks "}
          <b>{service.at}</b>
        </span>
        <span class="faint">
          {[service.owner, service.netns].filter((text) => text !== "").join(" in ")}
        </span>
        <span class="figures">{figures(service)}</span>
      </div>
      <Bar service={service} parts={data.parts} long={long} />
      {hasCourse(service) && <Course service={service} data={data} />}
    </div>
  );
}

function Bar(props: { service: ServiceTime; parts: Part[]; long: number }) {
  const { service, parts, long } = props;
  return (
    <div class="whole" role="img" aria-label={`${service.at}: ${told(service, parts)}`}>
      <div class="stack" style={{ width: `${long * 100}%` }}>
        {parts.map((part, i) => {
          const of = share(service.spent_s, i);
          if (of <= 0) return null;
          const text = `${part.name} ${percent(of)}`;
          return (
            <span
              key={part.name}
              class={`part-${i}`}
              style={{ width: `${of * 100}%` }}
              title={`${text}: ${duration((service.spent_s[i] ?? 0) * 1000)}`}
            >
              {of * long >= NAMED ? text : ""}
            </span>
          );
        })}
      </div>
    </div>
  );
}

/** A column for each part of the recording, as high as the time of its requests. */
function Course({ service, data }: { service: ServiceTime; data: Data }) {
  const sums = service.over_time.map(sum);
  const most = Math.max(...sums);
  const at = sums.indexOf(most);
  const label =
    `${service.at} over time, in steps of ${number(data.width_s)} s: at most ${duration(most * 1000)}, ` +
    `${number(at * data.width_s)} s after the start.`;
  return (
    <div class="course" role="img" aria-label={label}>
      {service.over_time.map((spent, column) => (
        <span
          key={column}
          title={`from ${number(column * data.width_s)} s: ${duration((sums[column] ?? 0) * 1000)}`}
        >
          {spent.map((s, i) =>
            s > 0 ? (
              <i
                key={i}
                class={`part-${i}`}
                style={{ height: `${most > 0 ? (s / most) * 100 : 0}%` }}
              />
            ) : null,
          )}
        </span>
      ))}
    </div>
  );
}

/** How many, how long, and what was not answered. */
function figures(service: ServiceTime): string {
  const says = [plural(service.exchanges, "request"), `${number(service.per_s)} per s`];
  if (service.multiplexed) says.push("multiplexed");
  if (service.p50_ms !== null) says.push(`p50 ${duration(service.p50_ms)}`);
  if (service.p99_ms !== null) says.push(`p99 ${duration(service.p99_ms)}`);
  if (service.open > 0) says.push(`${number(service.open)} not answered for a second or longer`);
  if (service.unanswered > 0) says.push(`${number(service.unanswered)} never answered`);
  return says.join(" · ");
}

/** What the bar shows, in words. */
function told(service: ServiceTime, parts: Part[]): string {
  const shares = parts
    .map((part, i) => ({ part, of: share(service.spent_s, i) }))
    .filter(({ of }) => of >= TOLD)
    .sort((a, b) => b.of - a.of)
    .map(({ part, of }) =>
      part.name === WHOSE[part.whose]
        ? `${part.name} ${percent(of)}`
        : `${WHOSE[part.whose]}, ${part.name} ${percent(of)}`,
    );
  return `${duration(total(service) * 1000)} in all. ${shares.join("; ")}.`;
}

function hasCourse(service: ServiceTime): boolean {
  return service.over_time.length >= COURSE;
}

function keyOf(service: ServiceTime): string {
  return `${service.netns} ${service.serves} ${service.at}`;
}

function total(service: ServiceTime): number {
  return sum(service.spent_s);
}

function sum(values: number[]): number {
  return values.reduce((all, s) => all + s, 0);
}

function share(spent: number[], i: number): number {
  const all = sum(spent);
  return all > 0 ? (spent[i] ?? 0) / all : 0;
}
