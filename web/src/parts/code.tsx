// A command that can be copied.
import { useRef, useState } from "preact/hooks";

/** Shows it with a button; where the clipboard is closed the text is selected instead. */
export function Code(props: { text: string }) {
  const code = useRef<HTMLElement>(null);
  const [said, say] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(props.text);
      say("Copied");
    } catch {
      const range = document.createRange();
      if (code.current) range.selectNodeContents(code.current);
      getSelection()?.removeAllRanges();
      getSelection()?.addRange(range);
      say("Selected");
    }
  };
  return (
    <div class="code">
      <pre>
        <code ref={code}>{props.text}</code>
      </pre>
      <button type="button" onClick={copy} aria-live="polite">
        {said}
      </button>
    </div>
  );
}
