// How to read the page, its words, and its keys, in a small window.
import { useEffect, useRef } from "preact/hooks";
import { GLOSSARY } from "./glossary";

const READING: string[] = [
  "The top says whose trouble it is, what is wrong, what it cost, and when: coloured stretches are when a finding was seen to hold, here and in all time lines.",
  "Findings say what to do: fix: is a command that changes something, look: one that only shows. Each can be copied.",
  "Evidence leads from the symptom to the limit that was hit; behind each step are rows of the recording.",
  "CROSS-CHECKS are numbers of different sources that must agree. Ruled out are look-alikes, each with the number against it.",
  "What is closed is what few need: a click opens it. An id such as path-loss leads to what the book says of that cause.",
  "Copy as Markdown gives the text of a ticket. Scripts, fonts and data are in this one file; it asks nobody for anything.",
];

const KEYS: [string, string][] = [
  ["j  k", "next and previous step of the evidence"],
  ["← →", "the same, in a chain; earlier and later, in the time lines"],
  ["Enter", "to what is behind a step; zooms a flame graph"],
  ["+  −", "zoom the time lines"],
  ["0", "show all of the time lines, of a flame graph"],
  ["↑ ↓ ← →", "walk a flame graph"],
  ["/", "to the socket filter"],
  ["?", "this help"],
];

export function Help({ open, close }: { open: boolean; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="help-title">
      <h2 id="help-title" tabIndex={-1} autofocus>
        How to read this page
      </h2>
      <ul>
        {READING.map((says) => (
          <li key={says}>{says}</li>
        ))}
      </ul>
      <h3>Words</h3>
      <dl class="small">
        {GLOSSARY.map(([word, means]) => (
          <div key={word}>
            <dt>{word}</dt>
            <dd>{means}</dd>
          </div>
        ))}
      </dl>
      <h3>Keys</h3>
      <dl class="small">
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={close}>
        Close
      </button>
    </dialog>
  );
}
