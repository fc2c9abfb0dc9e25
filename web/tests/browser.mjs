// Opens every report of a directory in a real browser and uses it: browser.mjs DIR
import { readdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { start } from "./browser-start.mjs";

const HOSTILE = "<img src=x onerror=alert(1)>";
const PATIENCE = 60000;
const SECTIONS =
  "findings evidence ruled-out timelines latency sockets threads flames limits health settings recording";

const directory = process.argv[2];
if (!directory) {
  console.error("usage: node tests/browser.mjs DIR");
  process.exit(2);
}
const files = readdirSync(directory).filter((name) => name.endsWith(".html"));
let [passed, failed] = [0, 0];

async function check(name, what, body) {
  try {
    await body();
    passed++;
    console.log(`ok    ${name}: ${what}`);
  } catch (error) {
    failed++;
    console.log(
      `FAIL  ${name}: ${what}: ${String(error.message).split("\n").slice(0, 3).join(" ")}`,
    );
  }
}

function must(condition, says) {
  if (!condition) throw new Error(says);
}

/** A page whose every complaint, request and dialog is written down. */
async function open(browser, file, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const url = pathToFileURL(resolve(file)).href;
  const trouble = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) trouble.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    trouble.push(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => {});
  });
  page.on("request", (request) => {
    // An icon of no bytes is part of the page itself.
    if (request.url() !== url && request.url() !== "data:,")
      trouble.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector("html[data-ready]");
  return { page, context, trouble };
}

/** The data of a report, unpacked by the browser as the page does it. */
function dataOf(page, file) {
  return page.evaluate(async (text) => {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).json();
  }, file);
}

/** Scrolls through the whole page, so that everything is drawn. */
async function drawAll(page) {
  await page.evaluate(() => {
    document.documentElement.style.scrollBehavior = "auto";
  });
  const places = page.locator(".drawn, .flame");
  for (let i = 0; i < (await places.count()); i++) {
    await places.nth(i).scrollIntoViewIfNeeded();
    await page.waitForFunction(
      (n) => document.querySelectorAll(".drawn, .flame")[n].dataset.drawn,
      i,
    );
  }
}

const text = (page, testid) => page.getByTestId(testid).first().innerText();

/** Waits until what a function of the page tells is another than it was. */
function changed(page, read, before) {
  return page.waitForFunction(
    ([source, old]) => JSON.stringify(new Function(`return (${source})()`)()) !== old,
    [read.toString(), JSON.stringify(before)],
  );
}

/** What part every chart of the time axis shows. */
function ranges() {
  const charts = document.querySelectorAll("#timelines .drawn, #threads .drawn");
  return [...charts].map((chart) => `${chart.dataset.from} ${chart.dataset.to}`);
}

async function walkByPointer(page) {
  const chain = page.getByTestId("chain").first();
  const steps = chain.getByTestId("chain-step");
  const detail = chain.getByTestId("step-detail");
  const count = await steps.count();
  let rows = 0;
  for (let i = 0; i < count; i++) {
    await steps.nth(i).click();
    await page.waitForFunction(
      ([element, n]) => element.dataset.step === String(n),
      [await detail.elementHandle(), i + 1],
    );
    must((await steps.nth(i).getAttribute("aria-current")) === "step", "the step is not marked");
    rows += await detail.getByTestId("step-rows").locator("tbody tr").count();
  }
  must(rows > 0, "no step shows a row");
}

async function walkByKeyboard(page) {
  const chain = page.getByTestId("chain").first();
  const steps = chain.getByTestId("chain-step");
  const detail = chain.getByTestId("step-detail");
  const step = () => detail.getAttribute("data-step");
  await steps.first().click();
  const far = Math.min(await steps.count(), 3);
  for (let i = 2; i <= far; i++) {
    await page.keyboard.press("ArrowRight");
    must((await step()) === String(i), `→ came to step ${await step()} instead of ${i}`);
  }
  if (far > 1) {
    await page.keyboard.press("ArrowLeft");
    must((await step()) === String(far - 1), "← did not go back");
    await page.keyboard.press("j");
    must((await step()) === String(far), "j did not go on");
    await page.keyboard.press("k");
    must((await step()) === String(far - 1), "k did not go back");
  }
  await page.keyboard.press("Enter");
  const inside = await detail.evaluate((element) => element.contains(document.activeElement));
  must(inside, "Enter did not lead to what is behind the step");
}

async function jumpFromRow(page) {
  await page.getByTestId("step-rows").first().locator("button.link").first().click();
  await page.waitForFunction(() => {
    const { top } = document.getElementById("timelines").getBoundingClientRect();
    return top >= -5 && top < window.innerHeight / 2;
  });
}

async function zoomByDrag(page) {
  const chart = page.locator("#timelines .drawn").first();
  await chart.scrollIntoViewIfNeeded();
  const before = await page.evaluate(ranges);
  const over = await chart.locator(".u-over").boundingBox();
  const y = over.y + over.height / 2;
  await page.mouse.move(over.x + over.width * 0.3, y);
  await page.mouse.down();
  await page.mouse.move(over.x + over.width * 0.45, y, { steps: 4 });
  await page.mouse.move(over.x + over.width * 0.6, y, { steps: 4 });
  await page.mouse.up();
  await changed(page, ranges, before);
  const zoomed = await page.evaluate(ranges);
  must(new Set(zoomed).size === 1, `the charts differ: ${[...new Set(zoomed)].join("; ")}`);
  must(
    zoomed.every((range, i) => range !== before[i]),
    "a chart kept its range",
  );
  await page.locator("#timelines [role=group]").first().focus();
  await page.keyboard.press("+");
  await changed(page, ranges, zoomed);
  await page.keyboard.press("0");
  await page.waitForFunction(
    ([source, old]) => JSON.stringify(new Function(`return (${source})()`)()) === old,
    [ranges.toString(), JSON.stringify(before)],
  );
}

async function filterSockets(page, run) {
  const read = () => document.querySelector("[data-testid=socket-count]").textContent;
  const all = await page.evaluate(read);
  const filter = page.getByTestId("socket-filter");
  const one = run.sockets.sockets.at(-1).name.split(" ")[0];
  await filter.fill(one);
  await changed(page, read, all);
  const shown = Number.parseInt((await page.evaluate(read)).replaceAll(",", ""), 10);
  const match = (socket) =>
    [socket.name, ...socket.attributes].some((t) => t.toLowerCase().includes(one.toLowerCase()));
  const expected = run.sockets.sockets.filter(match).length;
  must(shown === expected, `${shown} shown, ${expected} match`);
  const rows = await page.getByTestId("socket-table").locator("tbody tr").count();
  must(rows === Math.min(expected, 200), `the table has ${rows} rows`);
  await filter.fill("matches-nothing-at-all");
  await page.waitForFunction(
    (source) => new Function(`return (${source})()`)().startsWith("0 of"),
    read.toString(),
  );
  await filter.fill("");
  await page.waitForFunction(
    ([source, old]) => new Function(`return (${source})()`)() === old,
    [read.toString(), all],
  );
}

async function searchFlame(page, flame) {
  let node = flame.root;
  while (node.children?.length) node = node.children[0];
  await page.getByTestId("flame-search").fill(node.name);
  await page.waitForFunction(() =>
    / of the whole/.test(document.querySelector("[data-testid=flame-match]").textContent),
  );
  await page.getByTestId("flame-search").fill("matches-nothing-at-all");
  await page.waitForFunction(
    () => document.querySelector("[data-testid=flame-match]").textContent === "found nowhere",
  );
  await page.getByTestId("flame-search").fill("");
}

async function zoomFlame(page) {
  const graph = page.getByTestId("flame");
  await graph.scrollIntoViewIfNeeded();
  const frames = () =>
    [...document.querySelectorAll(".flame g.frame rect")].map((r) => r.getAttribute("width"));
  const before = await page.evaluate(frames);
  // The widest function that is not the whole.
  const box = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll(".flame g.frame rect")].map((rect) => {
      const { x, y, width, height } = rect.getBoundingClientRect();
      return { x, y, width, height };
    });
    const whole = Math.max(...boxes.map((b) => b.width));
    const part = boxes.filter((b) => b.width < whole * 0.999);
    return part.sort((a, b) => b.width - a.width)[0] ?? null;
  });
  if (box) {
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await changed(page, frames, before);
    must(/of the whole/.test(await text(page, "flame-at")), "it is not told what was zoomed to");
    await graph.focus();
    await page.keyboard.press("Escape");
    await page.waitForFunction(
      ([source, count]) => new Function(`return (${source})()`)().length === count,
      [frames.toString(), before.length],
    );
  }
  await graph.focus();
  await page.keyboard.press("ArrowUp");
  await page.waitForFunction(() =>
    /of the whole/.test(document.querySelector("[data-testid=flame-at]").textContent),
  );
}

async function hostileIsText(page, data) {
  const named = JSON.stringify(data).includes(HOSTILE);
  const images = await page.locator("img").count();
  must(images === 0, `${images} images in the page`);
  if (!named) return;
  const seen = await page.evaluate((name) => document.body.textContent.includes(name), HOSTILE);
  must(seen, "the name is nowhere to be read");
}

async function noSidewaysScroll(page) {
  const wide = await page.evaluate(() => {
    const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) return "";
    const out = [...document.querySelectorAll("main *")].find((element) => {
      const inner = element.closest(".scroll, nav, .code");
      return !inner && element.getBoundingClientRect().right > root.clientWidth + 1;
    });
    return `${root.scrollWidth} wide, for one ${out?.tagName} ${out?.className}`;
  });
  must(wide === "", wide);
}

/** Everything that one report must do. */
async function report(browser, file) {
  const name = basename(file, ".html");
  const { page, context, trouble } = await open(browser, file, {
    viewport: { width: 1280, height: 900 },
  });
  const packed = await page.evaluate(() => document.documentElement.dataset.ready);
  must(packed === "1", "not ready");
  const times = await page.evaluate(() => {
    const at = (mark) => Math.round(performance.getEntriesByName(mark)[0]?.startTime ?? -1);
    return { findings: at("findings"), ready: at("ready") };
  });
  console.log(`      ${name}: findings after ${times.findings} ms, ready after ${times.ready} ms`);
  const data = await dataOf(page, sourceData(file));
  const run = data.runs[0];

  await check(name, "findings can be read", async () => {
    const cases = await page.getByTestId("finding").allInnerTexts();
    if (run.findings.length === 0) {
      must(/No cause found/.test(await text(page, "no-cause")), "it does not say so");
      return;
    }
    must(cases.length === run.findings.length, `${cases.length} of ${run.findings.length}`);
    run.findings.forEach((finding, i) => {
      const squeezed = (t) => t.replace(/\s+/g, " ");
      must(squeezed(cases[i]).includes(squeezed(finding.title)), `no title: ${finding.title}`);
    });
  });
  await check(name, "every section is there", async () => {
    const ids = SECTIONS.split(" ").concat(data.comparison ? ["differs"] : []);
    for (const id of ids) {
      const section = page.locator(`section#${id}`);
      must((await section.count()) === 1, `no ${id}`);
      must((await section.innerText()).trim().length > 20, `${id} is blank`);
    }
  });
  await check(name, "all is drawn", () => drawAll(page));
  await check(name, "names of the host are text", () => hostileIsText(page, data));
  await check(name, "charts have names", async () => {
    const labels = await page
      .locator("[role=img], [role=application]")
      .evaluateAll((all) => all.map((each) => each.getAttribute("aria-label") ?? ""));
    must(
      labels.every((label) => label.length > 20),
      `one is called "${labels.find((l) => l.length <= 20)}"`,
    );
  });
  if (run.findings[0]?.steps.length > 0) {
    await check(name, "the chain is walked by pointer", () => walkByPointer(page));
    await check(name, "the chain is walked by keyboard", () => walkByKeyboard(page));
  }
  if (run.timelines.charts.length > 0) {
    const walked = run.findings[0]?.steps.length > 0;
    if (walked) await check(name, "a row leads to its moment", () => jumpFromRow(page));
    await check(name, "all time lines zoom together", () => zoomByDrag(page));
  }
  if (run.sockets?.sockets.length > 1) {
    await check(name, "sockets are filtered", () => filterSockets(page, run));
  }
  const flame = run.flames[0] ?? data.comparison?.flames[0];
  if (flame) {
    await check(name, "the flame graph is searched", () => searchFlame(page, flame));
    await check(name, "the flame graph is zoomed", () => zoomFlame(page));
  }
  if (data.runs.length > 1) {
    await check(name, "another recording is chosen", async () => {
      await page.getByTestId("run-choice").selectOption("1");
      await page.waitForFunction(
        (host) => document.querySelector("#recording").textContent.includes(host),
        data.runs[1].name,
      );
    });
  }
  await check(name, "light and dark", async () => {
    const page_ = () => getComputedStyle(document.body).backgroundColor;
    const before = await page.evaluate(page_);
    await page.getByTestId("theme").click();
    await changed(page, page_, before);
  });
  await check(name, "the keys are told", async () => {
    await page.locator("h1").click();
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog:not([open])", { state: "attached" });
  });
  await check(name, "nothing was complained of, asked for, or popped up", async () => {
    must(trouble.length === 0, trouble.slice(0, 3).join("; "));
  });
  await context.close();

  const small = await open(browser, file, { viewport: { width: 360, height: 740 } });
  await check(name, "fits 360 pixels", async () => {
    await drawAll(small.page);
    await noSidewaysScroll(small.page);
    must(small.trouble.length === 0, small.trouble.slice(0, 3).join("; "));
  });
  await small.context.close();

  const paper = await open(browser, file, { viewport: { width: 1280, height: 900 } });
  await check(name, "prints with every chart", async () => {
    await paper.page.emulateMedia({ media: "print" });
    await paper.page.waitForFunction(() =>
      [...document.querySelectorAll(".drawn, .flame")].every((place) => place.dataset.drawn),
    );
    must((await paper.page.pdf({ format: "A4" })).length > 10000, "the PDF is empty");
    must(paper.trouble.length === 0, paper.trouble.slice(0, 3).join("; "));
  });
  await paper.context.close();

  const off = await browser.newContext({ javaScriptEnabled: false });
  const plain = await off.newPage();
  await check(name, "can be read without scripts", async () => {
    await plain.goto(pathToFileURL(resolve(file)).href);
    const says = await plain.locator("noscript").innerText();
    must(/Scripts are off/.test(says) && says.length > 120, `it says: ${says.slice(0, 80)}`);
  });
  await off.close();
}

/** The packed data of a report, as it stands in the file. */
function sourceData(file) {
  const html = readFileSync(file, "utf8");
  const found = /<script id="tcpwhy-data"[^>]*>([^<]*)<\/script>/.exec(html);
  if (!found) throw new Error(`${file} holds no data`);
  return found[1].trim();
}

if (files.length === 0) {
  console.error(`no report in ${directory}`);
  process.exit(2);
}
const browser = await start();
for (const file of files.sort()) {
  await check(basename(file, ".html"), "was opened", () => report(browser, join(directory, file)));
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
