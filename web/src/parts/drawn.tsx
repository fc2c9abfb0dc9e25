// A place for a chart: it is drawn when it comes into view, and has a name for those who do not see it.
import { useEffect, useRef } from "preact/hooks";
import { type Draw, place } from "../charts/live";

/** `draw` must stay the same function while nothing changes; `height` is kept free for it. */
export function Drawn(props: { draw: Draw; label: string; height: number; id: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => (host.current ? place(host.current, props.draw) : undefined), [props.draw]);
  return (
    <div
      class="drawn"
      ref={host}
      role="img"
      aria-label={props.label}
      data-testid="chart"
      data-chart={props.id}
      style={{ minHeight: `${props.height}px` }}
    />
  );
}
