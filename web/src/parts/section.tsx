// A section of the page, with its heading; and what is said when it has nothing to show.
import type { ComponentChildren } from "preact";

/** The sections that every report has, in their order: anchor and heading. */
export const SECTIONS: [string, string][] = [
  ["services", "Whose time"],
  ["findings", "Findings"],
  ["evidence", "Evidence"],
  ["ruled-out", "Ruled out"],
  ["timelines", "Time lines"],
  ["latency", "Latency"],
  ["sockets", "Sockets"],
  ["threads", "Threads"],
  ["flames", "Flame graphs"],
  ["limits", "Limits"],
  ["health", "Health"],
  ["settings", "Settings"],
  ["recording", "Recording"],
];

/** The section that only a comparison has. */
export const DIFFERS: [string, string] = ["differs", "What differs"];

/** One of them; `lead` says in a sentence what it shows. */
export function Section(props: { id: string; lead?: string; children: ComponentChildren }) {
  const title = [DIFFERS, ...SECTIONS].find(([id]) => id === props.id)?.[1] ?? props.id;
  return (
    <section id={props.id} aria-labelledby={`${props.id}-title`}>
      <h2 id={`${props.id}-title`}>{title}</h2>
      {props.lead && <p class="lead">{props.lead}</p>}
      {props.children}
    </section>
  );
}

/** What is said instead of an empty box. */
export function Empty(props: { children: ComponentChildren }) {
  return <p class="empty">{props.children}</p>;
}
