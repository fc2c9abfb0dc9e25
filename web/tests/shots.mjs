// Pictures of a report, for the README and the book: shots.mjs FILE.html OUT_DIR WIDTH-SCHEME[-SECTION]...
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { start } from "./browser-start.mjs";

const [file, out, ...names] = process.argv.slice(2);
if (!file || !out || names.length === 0) {
  console.error("usage: node tests/shots.mjs FILE.html OUT_DIR WIDTH-SCHEME[-SECTION]...");
  process.exit(2);
}
mkdirSync(out, { recursive: true });
const browser = await start();

async function open(options) {
  const context = await browser.newContext({ deviceScaleFactor: 1, ...options });
  const page = await context.newPage();
  await page.goto(pathToFileURL(resolve(file)).href);
  await page.waitForSelector("html[data-ready]", { timeout: 60000 });
  return page;
}

/** Opens what a section hides, and brings it to the top of the window with what is in it drawn. */
async function to(page, id) {
  const there = await page.evaluate((section) => {
    document.documentElement.style.scrollBehavior = "auto";
    const target = document.getElementById(section);
    for (let at = target; at; at = at.parentElement) {
      if (at instanceof HTMLDetailsElement) at.open = true;
    }
    const own = target?.querySelector(":scope > details.fold");
    if (own) own.open = true;
    return target !== null;
  }, id);
  if (!there) throw new Error(`${file} has no section ${id}`);
  // What was opened takes its place first.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  await page.evaluate((section) => document.getElementById(section)?.scrollIntoView(), id);
  await page.waitForFunction((section) => {
    const places = document.querySelectorAll(`#${section} .drawn, #${section} .flame`);
    const seen = [...places].filter((place) => {
      const { top, height } = place.getBoundingClientRect();
      return height > 0 && top < window.innerHeight;
    });
    return seen.every((p) => p.dataset.drawn);
  }, id);
}

const HIGH = { 1280: 900, 400: 860 };

for (const name of names) {
  const [, width, colorScheme, section] = /^(\d+)-(light|dark)(?:-(.+))?$/.exec(name) ?? [];
  if (!(width in HIGH)) throw new Error(`no picture is called ${name}`);
  const page = await open({ viewport: { width: +width, height: HIGH[width] }, colorScheme });
  if (section) await to(page, section);
  await page.screenshot({ path: join(out, `${name}.png`) });
  await page.close();
}
await browser.close();
