// What differs between the recordings.

import type { Compared } from "../page";
import { Prose } from "../parts/prose";
import { Empty, Section } from "../parts/section";
import { LimitTable } from "./limits";

export function Differs({ compared }: { compared: Compared }) {
  return (
    <Section id="differs">
      {compared.says.length === 0 ? (
        <Empty>Nothing was found that sets the recordings apart.</Empty>
      ) : (
        <ol class="says">
          {compared.says.map((says, i) => (
            <li key={i}>
              <Prose text={says} />
            </li>
          ))}
        </ol>
      )}
      {compared.tables.map((table, i) => (
        <LimitTable key={table.id + i} limits={table} />
      ))}
      {compared.flames.length > 0 && (
        <p>
          <a href="#flames">Flame graphs of what grew and what shrank</a> are further down.
        </p>
      )}
    </Section>
  );
}
