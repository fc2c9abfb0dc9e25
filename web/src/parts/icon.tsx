// A sign per kind of evidence, so that a chain can be read at a glance.
import type { StepKind } from "../page";

/** What each kind is called, and its lines on a field of 24 by 24. */
const KINDS: Record<StepKind, { name: string; lines: string }> = {
  wait: {
    name: "Wait",
    lines: "M7 3h10M7 21h10M8 3c0 5 3 6 4 9c1-3 4-4 4-9M8 21c0-5 3-6 4-9c1 3 4 4 4 9",
  },
  connection: {
    name: "Connection",
    lines: "M3 12a3 3 0 1 0 6 0a3 3 0 1 0-6 0M15 12a3 3 0 1 0 6 0a3 3 0 1 0-6 0M9 12h6",
  },
  segment: { name: "Segment", lines: "M3 8h11v8H3zM14 12h7M18 9l3 3l-3 3M7 8v8" },
  refusal: { name: "Refusal", lines: "M12 3a9 9 0 1 0 0.01 0M6 6l12 12" },
  counter: { name: "Counter", lines: "M4 20V12M10 20V7M16 20V10M20 20V4M3 20h18" },
  limit: { name: "Limit", lines: "M5 4v16h14V4M5 6h14M8 10h8M8 13h8M8 16h8" },
  setting: {
    name: "Setting",
    lines: "M4 7h9M17 7h3M15 5v4M4 12h3M11 12h9M9 10v4M4 17h11M19 17h1M17 15v4",
  },
  time: { name: "Time", lines: "M12 3a9 9 0 1 0 0.01 0M12 7v5l4 3" },
  other: { name: "Fact", lines: "M12 3a9 9 0 1 0 0.01 0M12 11v6M12 7v0.5" },
};

/** What a kind of evidence is called. */
export function kindName(kind: StepKind): string {
  return KINDS[kind].name;
}

/** Its sign. */
export function Icon(props: { kind: StepKind }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={KINDS[props.kind].lines} />
    </svg>
  );
}
