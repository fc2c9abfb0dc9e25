// Fills the built page with data as the report's writer does. As a program: fill.mjs OUT_DIR makes samples.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));

/** The module of a TypeScript file and all that it needs. */
export async function load(path) {
  const built = await build({
    entryPoints: [join(here, path)],
    bundle: true,
    format: "esm",
    write: false,
    logLevel: "error",
  });
  const source = Buffer.from(built.outputFiles[0].contents).toString("base64");
  return import(`data:text/javascript;base64,${source}`);
}

function escapeHtml(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function once(template, marker, text) {
  const parts = template.split(marker);
  if (parts.length !== 2) throw new Error(`${marker} is ${parts.length - 1} times in the page`);
  return parts.join(text);
}

/** The built page with `page` in it. */
export function fill(page) {
  const template = readFileSync(join(here, "../dist/index.html"), "utf8");
  const data = deflateRawSync(JSON.stringify(page)).toString("base64");
  const host = page.runs[0].facts.host;
  const titled = once(template, "__TCPWHY_TITLE__", escapeHtml(`tcpwhy: ${host}`));
  const says = page.runs[0].findings.map((finding) => `${finding.title}\n${finding.fix}`);
  const text = says.join("\n\n") || page.runs[0].verdict.says;
  const plain = once(titled, "__TCPWHY_PLAIN__", escapeHtml(text));
  return once(plain, "__TCPWHY_DATA__", data);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const out = process.argv[2];
  if (!out) {
    console.error("usage: node tests/fill.mjs OUT_DIR");
    process.exit(2);
  }
  const sample = await load("sample.ts");
  mkdirSync(out, { recursive: true });
  const pages = {
    full: sample.full(),
    large: sample.full({ sockets: 10000, samples: 30 }),
    comparison: sample.comparison(),
    healthy: sample.healthy(),
    empty: sample.empty(),
  };
  for (const [name, page] of Object.entries(pages)) {
    writeFileSync(join(out, `${name}.html`), fill(page));
  }
}
