// Runs the tests of what needs no browser: bundles tests/*.test.ts and hands them to node's runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const files = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
const out = mkdtempSync(join(tmpdir(), "tcpwhy-web-"));
try {
  await build({
    entryPoints: files.map((name) => join(here, name)),
    bundle: true,
    format: "esm",
    platform: "node",
    outdir: out,
    outExtension: { ".js": ".mjs" },
    loader: { ".css": "empty" },
    logLevel: "error",
  });
  const built = files.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
  process.exitCode =
    spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
