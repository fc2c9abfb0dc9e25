// The keys, in a small window.
import { useEffect, useRef } from "preact/hooks";

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
    <dialog ref={dialog} onClose={close} aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl class="facts">
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
