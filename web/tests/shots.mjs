// Pictures of a report, for the README and the book: shots.mjs FILE.html OUT_DIR
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

const shot = (page, name) => page.screenshot({ path: join(out, `${name}.png`) });

const WIDTHS = [
  [1280, 900],
  [400, 860],
];
const SECTIONS =
  "findings services evidence timelines latency sockets threads flames limits health recording";

for (const [width, height] of WIDTHS) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open({ viewport: { width, height }, colorScheme });
    const name = `${width}-${colorScheme}`;
    await shot(page, name);
    for (const id of SECTIONS.split(" ")) {
      if ((await page.locator(`#${id}`).count()) === 0) continue;
      await to(page, id);
      await shot(page, `${name}-${id}`);
    }
    await page.close();
  }
}
await browser.close();
