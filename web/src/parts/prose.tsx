// Sentences of the documentation, in which names stand between backticks.

export function Prose({ text }: { text: string }) {
  return (
    <>{text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>
  );
}
