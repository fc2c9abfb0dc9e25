// Opens every report of a directory in a real browser and uses it: browser.mjs DIR
import { readdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { inflateRawSync } from "node:zlib";
import {
  changed,
  copyTicket,
  drawAll,
  filterSockets,
  firstScreen,
  hostileIsText,
  jumpFromRow,
  must,
  noSidewaysScroll,
  openCause,
  PATIENCE,
  searchFlame,
  text,
  walkByKeyboard,
  walkByPointer,
  zoomByDrag,
  zoomFlame,
} from "./browser-acts.mjs";
import { start } from "./browser-start.mjs";

const SECTIONS =
  "findings services evidence ruled-out timelines latency sockets threads flames limits health settings recording";

const directory = process.argv[2];
if (!directory) {
  console.error("usage: node tests/browser.mjs DIR");
  process.exit(2);
}
const files = readdirSync(directory).filter((name) => name.endsWith(".html"));
let [passed, failed] = [0, 0];

/** One thing that a report must do; where it does not, what comes next begins on a fresh page. */
async function check(name, what, body, page) {
  try {
    await body();
    passed++;
    console.log(`ok    ${name}: ${what}`);
  } catch (error) {
    failed++;
    console.log(
      `FAIL  ${name}: ${what}: ${String(error.message).split("\n").slice(0, 3).join(" ")}`,
    );
    if (page) {
      await page.reload();
      await page.waitForSelector("html[data-ready]");
    }
  }
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
  const data = dataOf(file);
  const run = data.runs[0];
  const tried = (what, body) => check(name, what, body, page);

  await tried("it is read in ten seconds", () => firstScreen(page, run));
  await tried("a comparison has its answer first", async () => {
    if (!data.comparison) return;
    const head = await page.locator("header.top h1").allInnerTexts();
    must(
      head.length === 1 && head[0] === data.comparison.headline.replaceAll("`", ""),
      head.join(),
    );
  });
  await tried("it is at most six screens high", async () => {
    if (data.comparison) return;
    const high = await page.evaluate(() => document.documentElement.scrollHeight);
    must(high <= 6 * 800, `${high} pixels`);
  });
  await tried("a ticket is copied", () =>
    copyTicket(page, data.comparison?.ticket ?? run.verdict.ticket),
  );
  await tried("findings can be read", async () => {
    const cases = await page.getByTestId("finding").all();
    if (run.findings.length === 0) {
      const told = await text(page, "no-cause");
      must(/tested/.test(told), "it does not say what was tested");
      for (const symptom of run.summary.symptoms) {
        must(told.includes(symptom.says), `not told: ${symptom.says}`);
      }
      return;
    }
    must(cases.length === run.findings.length, `${cases.length} of ${run.findings.length}`);
    const whole = await page.evaluate(() => document.body.innerText.replace(/[\s`]+/g, " "));
    for (const [i, finding] of run.findings.entries()) {
      const bare = (t) => t.replace(/[\s`]+/g, " ");
      const told = bare(await cases[i].locator("h3").first().textContent());
      must(told.includes(bare(finding.fix).slice(0, 30)), `no fix: ${finding.fix}`);
      const times = whole.split(bare(finding.title)).length - 1;
      must(times === 1, `its title is there ${times} times: ${finding.title}`);
    }
  });
  if (run.findings.length > 0) {
    await tried("an id leads to the book", () => openCause(page, data, run));
  }
  await tried("what is closed opens by its link", async () => {
    await page.locator("nav a[href='#health']").click();
    await page.waitForSelector("#health details.fold[open]");
  });
  await tried("whose time it was is shown and told", async () => {
    const told = run.services?.services ?? [];
    const shown = page.getByTestId("service");
    must((await shown.count()) === told.length, `${await shown.count()} of ${told.length}`);
    const more = page.locator("section#services > details > summary");
    for (const summary of await more.all()) await summary.click();
    for (const [i, service] of told.entries()) {
      must((await shown.nth(i).innerText()).includes(service.at), `no ${service.at}`);
      const label = await shown.nth(i).locator(".whole").getAttribute("aria-label");
      must(label.includes(service.at) && label.includes("%"), `it is called "${label}"`);
      const [bar, whole] = await Promise.all(
        [".stack", ".whole"].map(
          async (it) => (await shown.nth(i).locator(it).boundingBox()).width,
        ),
      );
      const sum = (s) => s.spent_s.reduce((all, part) => all + part, 0);
      const long = whole * (sum(service) / sum(told[0]));
      must(Math.abs(bar - Math.max(long, 2)) < 3, `a bar of ${bar}, not ${long}`);
    }
    if (told.length > 0) {
      const rows = page.getByTestId("services-table").locator("tbody tr");
      must((await rows.count()) === told.length, "the table has other rows");
    }
  });
  await tried("notes can be read", async () => {
    const told = await page.getByTestId("noted").allInnerTexts();
    must(told.length === (run.noted.length > 0 ? 1 : 0), `${told.length} lists of notes`);
    for (const note of run.noted) {
      must(told[0].includes(note.because), `not told: ${note.because}`);
    }
  });
  await tried("every section is there", async () => {
    const ids = SECTIONS.split(" ").concat(data.comparison ? ["differs"] : []);
    for (const id of ids) {
      const section = page.locator(`section#${id}`);
      must((await section.count()) === 1, `no ${id}`);
      must((await section.textContent()).trim().length > 20, `${id} is blank`);
    }
  });
  await tried("all is drawn", () => drawAll(page));
  await tried("names of the host are text", () => hostileIsText(page, data));
  await tried("charts have names", async () => {
    const labels = await page
      .locator("[role=img], [role=application]")
      .evaluateAll((all) => all.map((each) => each.getAttribute("aria-label") ?? ""));
    must(
      labels.every((label) => label.length > 20),
      `one is called "${labels.find((l) => l.length <= 20)}"`,
    );
  });
  if (run.findings[0]?.steps.length > 0) {
    await tried("the chain is walked by pointer", () => walkByPointer(page));
    await tried("the chain is walked by keyboard", () => walkByKeyboard(page));
  }
  if (run.timelines.charts.length > 0) {
    const walked = run.findings[0]?.steps.length > 0;
    if (walked) await tried("a row leads to its moment", () => jumpFromRow(page));
    await tried("all time lines zoom together", () => zoomByDrag(page));
  }
  if (run.sockets?.sockets.length > 1) {
    await tried("sockets are filtered", () => filterSockets(page, run));
  }
  const flame = run.flames[0] ?? data.comparison?.flames[0];
  if (flame) {
    await tried("the flame graph is searched", () => searchFlame(page, flame));
    await tried("the flame graph is zoomed", () => zoomFlame(page));
  }
  if (data.runs.length > 1) {
    await tried("another recording is chosen", async () => {
      await page.getByTestId("run-choice").selectOption("1");
      await page.waitForFunction(
        (host) => document.querySelector("#recording").textContent.includes(host),
        data.runs[1].name,
      );
    });
  }
  await tried("light and dark", async () => {
    const page_ = () => getComputedStyle(document.body).backgroundColor;
    const before = await page.evaluate(page_);
    await page.getByTestId("theme").click();
    await changed(page, page_, before);
  });
  await tried("the keys are told", async () => {
    await page.locator("h1").click();
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog:not([open])", { state: "attached" });
  });
  await tried("nothing was complained of, asked for, or popped up", async () => {
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
    must(/Scripts are off/.test(says), "it does not say that scripts are off");
    const squeezed = says.replace(/\s+/g, " ");
    const told = run.findings[0]?.title ?? run.verdict.says;
    must(squeezed.includes(told.slice(0, 40)), `it does not say "${told}"`);
  });
  await off.close();
}

/** What the report's writer put into the file. */
function dataOf(file) {
  const html = readFileSync(file, "utf8");
  const found = /<script id="tcpwhy-data"[^>]*>([^<]*)<\/script>/.exec(html);
  if (!found) throw new Error(`${file} holds no data`);
  return JSON.parse(inflateRawSync(Buffer.from(found[1].trim(), "base64")).toString("utf8"));
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
