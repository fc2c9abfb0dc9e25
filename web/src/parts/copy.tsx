// Copies text: a button that says whether it worked, also where the clipboard is closed to pages.
import { useState } from "preact/hooks";

/** Puts the text on the clipboard; tells whether that worked. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // What browsers had before; it works for pages that were opened from a disk.
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const worked = document.execCommand("copy");
    field.remove();
    return worked;
  }
}

/** A button that copies `text`. */
export function Copy(props: { text: string; label?: string; look?: string; testid?: string }) {
  const label = props.label ?? "Copy";
  const [said, say] = useState<string | null>(null);
  const copy = async () => {
    say((await copied(props.text)) ? "Copied" : "Could not copy");
    setTimeout(() => say(null), 2500);
  };
  return (
    <button
      type="button"
      class={props.look}
      onClick={copy}
      aria-live="polite"
      data-testid={props.testid}
      data-copies={props.text}
    >
      {said ?? label}
    </button>
  );
}
