// Sentences in which names and commands stand between backticks; a command can be copied.
import { Copy } from "./copy";

/** The parts of a sentence: text and code by turns. A backtick without another one is a backtick. */
export function parts(text: string): { text: string; code: boolean }[] {
  const found: { text: string; code: boolean }[] = [];
  const add = (piece: string, code: boolean) => {
    if (piece !== "") found.push({ text: piece, code });
  };
  let from = 0;
  for (const { index, 0: whole, 1: inside } of text.matchAll(/`([^`\n]+)`/g)) {
    add(text.slice(from, index), false);
    add(inside ?? "", true);
    from = index + whole.length;
  }
  add(text.slice(from), false);
  return found;
}

export function Prose({ text }: { text: string }) {
  return (
    <>
      {parts(text).map((part, i) => {
        if (!part.code) return part.text;
        return (
          <span key={i}>
            <code>{part.text}</code>
            {part.text.includes(" ") && <Copy text={part.text} look="inline" />}
          </span>
        );
      })}
    </>
  );
}
