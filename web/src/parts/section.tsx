// A section of the page, with its heading, open or folded; and what is said when it has nothing to show.
import type { ComponentChildren } from "preact";

/** The sections that every report has, in their order: anchor and heading. */
export const SECTIONS: [string, string][] = [
  ["findings", "Findings"],
  ["services", "Whose time"],
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

/** One of them; `lead` says in a sentence what it shows. With `fold`, what is in it, it is closed at first. */
export function Section(props: {
  id: string;
  lead?: string;
  fold?: string | undefined;
  children: ComponentChildren;
}) {
  const title = [DIFFERS, ...SECTIONS].find(([id]) => id === props.id)?.[1] ?? props.id;
  const heading = <h2 id={`${props.id}-title`}>{title}</h2>;
  const inside = (
    <>
      {props.lead && <p class="lead">{props.lead}</p>}
      {props.children}
    </>
  );
  return (
    <section id={props.id} aria-labelledby={`${props.id}-title`}>
      {props.fold === undefined ? (
        <>
          {heading}
          {inside}
        </>
      ) : (
        <details class="fold">
          <summary>
            {heading}
            <span class="faint">{props.fold}</span>
          </summary>
          {inside}
        </details>
      )}
    </section>
  );
}

/** Opens what hides the element of this id, and the section if it is one. */
export function unfold(id: string): void {
  const target = document.getElementById(id);
  for (let at: Element | null = target; at; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) at.open = true;
  }
  const own = target?.querySelector<HTMLDetailsElement>(":scope > details.fold");
  if (own) own.open = true;
}

/** What is said instead of an empty box. */
export function Empty(props: { children: ComponentChildren }) {
  return <p class="empty">{props.children}</p>;
}
