// A command that can be copied, behind what it does: `fix:` or `look:`.
import { Copy } from "./copy";

export function Code(props: { text: string; kind?: string }) {
  return (
    <div class="code">
      {props.kind && <span class="kind">{props.kind}</span>}
      <pre>
        <code>{props.text}</code>
      </pre>
      <Copy text={props.text} />
    </div>
  );
}
