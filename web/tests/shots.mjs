// Pictures of a report, for the README and the book: shots.mjs FILE.html OUT_DIR [--width N]
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { start } from "./browser-start.mjs";

const [file, out] = process.argv.slice(2);
if (!file || !out) {
  console.error("usage: node tests/shots.mjs FILE.html OUT_DIR");
  process.exit(2);
}
mkdirSync(out, { recursive: true });
const browser = await start();

async function open(options) {
  const context = await browser.newContext({ deviceScaleFactor: 1.5, ...options });
  const page = await context.newPage();
  await page.goto(pathToFileURL(resolve(file)).href);
  await page.waitForSelector("html[data-ready]", { timeout: 60000 });
  return page;
}

/** Brings a section to the top of the window, with what is in it drawn. */
async function to(page, id) {
  await page.evaluate((section) => {
    document.documentElement.style.scrollBehavior = "auto";
    document.getElementById(section)?.scrollIntoView();
  }, id);
  await page.waitForFunction((section) => {
    const places = document.querySelectorAll(`#${section} .drawn, #${section} .flame`);
    const seen = [...places].filter((p) => p.getBoundingClientRect().top < window.innerHeight);
    return seen.every((p) => p.dataset.drawn);
  }, id);
}

const wide = await open({ viewport: { width: 1280, height: 900 } });
const shot = (page, name) => page.screenshot({ path: join(out, `${name}.png`) });
await shot(wide, "services");
for (const id of [
  "findings",
  "evidence",
  "timelines",
  "latency",
  "sockets",
  "threads",
  "flames",
  "limits",
  "health",
  "recording",
]) {
  await to(wide, id);
  await shot(wide, id);
}
await wide.close();

const dark = await open({ viewport: { width: 1280, height: 900 }, colorScheme: "dark" });
await shot(dark, "dark");
await to(dark, "timelines");
await shot(dark, "dark-timelines");
await to(dark, "sockets");
await shot(dark, "dark-sockets");
await to(dark, "flames");
await shot(dark, "dark-flames");
await dark.close();

const small = await open({ viewport: { width: 360, height: 740 } });
await shot(small, "small");
for (const id of ["evidence", "timelines", "sockets"]) {
  await to(small, id);
  await shot(small, `small-${id}`);
}
await small.close();
await browser.close();
