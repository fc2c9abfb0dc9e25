// Flame graphs: one at a time, chosen, searched and zoomed.
import { useEffect, useRef, useState } from "preact/hooks";
import { drawFlame, type Graph, hasDelta } from "../charts/flame";
import { place } from "../charts/live";
import { percent, plural, withUnit } from "../format";
import type { Flame, Run } from "../page";
import { Empty, Section } from "../parts/section";

export function Flames({ run, compared }: { run: Run; compared: Flame[] }) {
  const all = [...run.flames, ...compared];
  return (
    <Section
      id="flames"
      fold={
        all.length > 0
          ? `${plural(all.length, "graph")}; ${all[0]?.note.split(/[;.]/)[0]}`
          : "no profile was recorded"
      }
    >
      {all.length > 0 ? (
        <Viewer flames={all} />
      ) : (
        <Empty>
          This recording has no profile: record it <code>--with profile</code>, or{" "}
          <code>--with waits</code> for what threads waited for.
        </Empty>
      )}
    </Section>
  );
}

function Viewer({ flames }: { flames: Flame[] }) {
  const [which, choose] = useState(0);
  const [term, setTerm] = useState("");
  const [match, setMatch] = useState<ReturnType<Graph["search"]>>(null);
  const [at, setAt] = useState("");
  const host = useRef<HTMLDivElement>(null);
  const graph = useRef<Graph | null>(null);
  const flame = flames[which] ?? (flames[0] as Flame);
  const text = useRef(term);
  text.current = term;
  useEffect(() => {
    setAt("");
    if (!host.current) return;
    return place(host.current, (into) => {
      const drawn = drawFlame(into, flame, setAt);
      graph.current = drawn;
      setMatch(drawn.search(text.current));
      return drawn;
    });
  }, [flame]);
  const differs = hasDelta(flame.root);
  const top = flame.root.children?.reduce((a, b) => (b.value > a.value ? b : a));
  const label = `${flame.title}: ${withUnit(flame.root.value, flame.unit)} in all${
    top ? `; most under ${top.name}, ${percent(top.value / (flame.root.value || 1))}` : ""
  }. Arrow keys walk, Enter zooms, Escape shows everything.`;
  return (
    <>
      <div class="tools">
        <label>
          graph
          <select
            value={which}
            onChange={(event) => choose(Number(event.currentTarget.value))}
            data-testid="flame-choice"
          >
            {flames.map((each, i) => (
              <option key={i} value={i}>
                {each.title}
              </option>
            ))}
          </select>
        </label>
        <label class="filter">
          search
          <input
            type="search"
            value={term}
            placeholder="function"
            onInput={(event) => {
              setTerm(event.currentTarget.value);
              setMatch(graph.current?.search(event.currentTarget.value) ?? null);
            }}
            data-testid="flame-search"
          />
        </label>
        <span aria-live="polite" data-testid="flame-match">
          {match
            ? match.functions === 0
              ? "found nowhere"
              : `${plural(match.functions, "function")}, ${percent(match.share)} of the whole`
            : ""}
        </span>
        <button type="button" onClick={() => graph.current?.reset()}>
          Show everything
        </button>
      </div>
      {flame.note !== "" && <p class="note">{flame.note}</p>}
      <p class="legend">
        {(differs
          ? [
              ["flame-grew", "grew"],
              ["flame-shrank", "shrank"],
              ["flame-same", "as before"],
            ]
          : [
              ["flame-kernel-0", "kernel"],
              ["flame-user-0", "program"],
            ]
        ).map(([colour, says]) => (
          <span key={says} class="key">
            <i style={{ background: `var(--${colour})` }} />
            {says}
          </span>
        ))}
      </p>
      <div
        class="flame"
        ref={host}
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it takes keys
        tabIndex={0}
        aria-label={label}
        data-testid="flame"
        onKeyDown={(event) => {
          if (graph.current?.key(event.key)) event.preventDefault();
        }}
      />
      <p class="at" aria-live="polite" data-testid="flame-at">
        {at === ""
          ? "Callers are above, what they called is below. Click a function to zoom into it; point at it to read it."
          : at}
      </p>
    </>
  );
}
