// The book's page of a cause, which its id opens in a small window.
import { createContext } from "preact";
import { useContext, useEffect, useRef } from "preact/hooks";
import type { CauseDoc } from "../page";
import { parts } from "./prose";

/** The causes that are known, and how one is opened. */
export const Causes = createContext<{ all: CauseDoc[]; open: (cause: CauseDoc) => void }>({
  all: [],
  open: () => {},
});

/** An id that leads to the page of its cause; with its number where that is wanted. */
export function CauseId({ id, numbered }: { id: string; numbered?: boolean }) {
  const { all, open } = useContext(Causes);
  const cause = all.find((each) => each.id === id);
  if (!cause) return <code>{id}</code>;
  return (
    <button
      type="button"
      class="link cause"
      title={cause.title}
      onClick={() => open(cause)}
      data-testid="cause"
    >
      {numbered && cause.number !== "" ? `${cause.number} ` : ""}
      <code>{id}</code>
    </button>
  );
}

export function CausePage({ cause, close }: { cause: CauseDoc | null; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (cause) dialog.current?.showModal();
    else dialog.current?.close();
  }, [cause]);
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="cause-title" class="cause-page">
      <h2 id="cause-title" tabIndex={-1} autofocus>
        {cause?.number} {cause?.title}
      </h2>
      {cause && blocks(cause.text).map((block, i) => <Block key={i} lines={block} />)}
      <button type="button" onClick={close}>
        Close
      </button>
    </dialog>
  );
}

/** Paragraphs, lists and tables, as lists of lines. */
export function blocks(text: string): string[][] {
  const paragraphs = text.split(/\n\s*\n/).map((each) => each.trim());
  return paragraphs.filter((each) => each !== "").map((each) => each.split("\n"));
}

function Block({ lines }: { lines: string[] }) {
  const first = lines[0] ?? "";
  if (first.startsWith("```")) return <pre>{lines.slice(1, -1).join("\n")}</pre>;
  if (first.startsWith("|")) return <Table rows={table(lines)} />;
  if (first.startsWith("- ")) {
    const items = lines.join("\n").split(/^- /m).slice(1);
    return (
      <ul>
        {items.map((item, i) => (
          <li key={i}>
            <Strong text={item} />
          </li>
        ))}
      </ul>
    );
  }
  return (
    <p>
      <Strong text={lines.join(" ")} />
    </p>
  );
}

/** The cells of a table's lines; the second line only rules it. */
export function table(lines: string[]): string[][] {
  const rows = lines.filter((_, i) => i !== 1);
  return rows.map((row) =>
    row
      .replace(/^\||\|$/g, "")
      .split("|")
      .map((cell) => cell.trim()),
  );
}

function Table({ rows: [head = [], ...rows] }: { rows: string[][] }) {
  return (
    <table>
      <thead>
        <tr>
          {head.map((cell, i) => (
            <th key={i}>
              <Strong text={cell} />
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={i}>
            {row.map((cell, k) => (
              <td key={k}>
                <Strong text={cell} />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Text in which words are bold, or lead to pages that are not here; code that can be copied would only disturb. */
function Strong({ text }: { text: string }) {
  const plain = text.replace(/\s*\n\s*/g, " ").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  return (
    <>
      {plain.split("**").map((part, i) => {
        const inside = parts(part).map((each, k) =>
          each.code ? <code key={k}>{each.text}</code> : each.text,
        );
        return i % 2 === 1 ? <strong key={i}>{inside}</strong> : <span key={i}>{inside}</span>;
      })}
    </>
  );
}
