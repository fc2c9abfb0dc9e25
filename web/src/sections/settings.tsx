// Settings in force, with what they were changed to while it was recorded.
import { useMemo, useState } from "preact/hooks";
import { moment, number, plural } from "../format";
import type { Run } from "../page";
import { Empty, Section } from "../parts/section";
import { Table } from "../parts/table";

export function Settings({ run }: { run: Run }) {
  const [text, setText] = useState("");
  const word = text.trim().toLowerCase();
  const found = useMemo(
    () =>
      run.settings.filter((setting) =>
        [setting.name, setting.netns, setting.value].some((t) => t.toLowerCase().includes(word)),
      ),
    [run, word],
  );
  return (
    <Section id="settings" fold={plural(run.settings.length, "setting")}>
      {run.settings.length === 0 ? (
        <Empty>No setting was recorded.</Empty>
      ) : (
        <>
          <div class="tools">
            <label class="filter">
              filter
              <input
                type="search"
                value={text}
                placeholder="tcp_…"
                onInput={(event) => setText(event.currentTarget.value)}
                data-testid="setting-filter"
              />
            </label>
            <span aria-live="polite">
              {number(found.length)} of {plural(run.settings.length, "setting")}
            </span>
          </div>
          <div class="tall">
            <Table
              label="Settings"
              heads={["setting", "value", "changed", "where"]}
              rows={found.map((setting) => [
                <code key="name">{setting.name}</code>,
                <code key="value">{setting.value}</code>,
                setting.changes.length === 0 ? (
                  ""
                ) : (
                  <strong key="changes">
                    {setting.changes.map(([at, to]) => `${to} at ${moment(at)}`).join(", ")}
                  </strong>
                ),
                setting.netns,
              ])}
            />
          </div>
        </>
      )}
    </Section>
  );
}
