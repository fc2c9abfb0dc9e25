// A picture of a terminal: shot-terminal.mjs SCREEN OUT.png COLUMNS LINES; SCREEN as `tmux capture-pane -e` prints it.
import { readFileSync } from "node:fs";
import { start } from "./browser-start.mjs";

const [file, out, columns, lines] = process.argv.slice(2);
if (!lines) {
  console.error("usage: node tests/shot-terminal.mjs SCREEN OUT.png COLUMNS LINES");
  process.exit(2);
}
const NAMES = [
  "#1b1f24",
  "#e5534b",
  "#57ab5a",
  "#c69026",
  "#539bf5",
  "#b083f0",
  "#39c5cf",
  "#adbac7",
];
const BRIGHT = [
  "#636e7b",
  "#ff938a",
  "#6bc46d",
  "#daaa3f",
  "#6cb6ff",
  "#dcbdfb",
  "#56d4dd",
  "#ffffff",
];
const INK = "#cdd9e5";
const PAGE = "#1c2128";

const ESC = String.fromCharCode(27);
const SGR = new RegExp(`(${ESC}\\[[0-9;]*m)`);
const CODES = new RegExp(`^${ESC}\\[([0-9;]*)m$`);

/** Text with SGR sequences, as HTML. */
function painted(text) {
  let look = {};
  const html = [];
  for (const part of text.split(SGR)) {
    const codes = CODES.exec(part);
    if (codes) {
      for (const code of (codes[1] || "0").split(";").map(Number)) look = after(look, code);
    } else if (part !== "") {
      const [ink, page] = look.reverse
        ? [look.page ?? PAGE, look.ink ?? INK]
        : [look.ink ?? INK, look.page ?? "transparent"];
      const css =
        `color:${ink};background:${page};` +
        (look.bold ? "font-weight:700;" : "") +
        (look.dim ? "opacity:.65;" : "");
      html.push(`<span style="${css}">${escaped(part)}</span>`);
    }
  }
  return html.join("");
}

function after(look, code) {
  if (code === 0) return {};
  if (code === 1) return { ...look, bold: true };
  if (code === 2) return { ...look, dim: true };
  if (code === 7) return { ...look, reverse: true };
  if (code === 22) return { ...look, bold: false, dim: false };
  if (code === 27) return { ...look, reverse: false };
  if (code === 39) return { ...look, ink: undefined };
  if (code === 49) return { ...look, page: undefined };
  if (code >= 30 && code < 38) return { ...look, ink: NAMES[code - 30] };
  if (code >= 90 && code < 98) return { ...look, ink: BRIGHT[code - 90] };
  if (code >= 40 && code < 48) return { ...look, page: NAMES[code - 40] };
  return look;
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

const browser = await start();
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
await page.setContent(
  `<body style="margin:0;background:${PAGE}"><pre style="display:inline-block;margin:0;padding:10px;width:${columns}ch;` +
    `height:calc(${lines} * 1.25em);overflow:hidden;font:13px/1.25 'DejaVu Sans Mono',monospace">` +
    `${painted(readFileSync(file, "utf8"))}</pre></body>`,
);
await page.locator("pre").screenshot({ path: out });
await browser.close();
