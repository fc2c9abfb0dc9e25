// What somebody does with a report, and what must come of it.

/** How long anything may take, ms: a busy machine is no failure. */
export const PATIENCE = 60000;

/** What the samples' hosts call things. */
const HOSTILE = "<img src=x onerror=alert(1)>";

/** Fails with these words unless it holds. */
export function must(condition, says) {
  if (!condition) throw new Error(says);
}

/** Whose trouble, what, where, when and since when are in view without a click or a scroll. */
export async function firstScreen(page, run) {
  await page.setViewportSize({ width: 1280, height: 800 });
  const { verdict, findings, facts } = run;
  const seen = await page.evaluate(() => {
    const at = (it) => document.querySelector(it)?.getBoundingClientRect().bottom ?? 1e9;
    const of = (it) => document.querySelector(it)?.textContent ?? "";
    return {
      says: of("header.top").replace(/[\s`]+/g, " "),
      answer: at("[data-testid=comparison], [data-testid=verdict]"),
      sparks: [...document.querySelectorAll("[data-testid=spark]")].map((spark) => ({
        bottom: spark.getBoundingClientRect().bottom,
        spans: spark.querySelectorAll("rect").length,
        says: spark.getAttribute("aria-label"),
      })),
      kind: document.querySelector("[data-testid=verdict]").className,
    };
  });
  const bare = (t) => t.replace(/[\s`]+/g, " ").trim();
  for (const wanted of [facts.host, verdict.says, verdict.also, ...findings.map((f) => f.title)]) {
    must(seen.says.includes(bare(wanted)), `not in the head: ${wanted}`);
  }
  must(/\d\d:\d\d:\d\d to .* UTC/.test(seen.says), "the head has no window");
  must(seen.answer <= 800, `the answer ends at ${seen.answer}`);
  must(seen.kind.includes(verdict.kind), `it looks ${seen.kind}, not ${verdict.kind}`);
  const pictured = findings.slice(0, 3).filter((f) => f.course || f.spans.length > 0);
  must(
    seen.sparks.length >= pictured.length,
    `${seen.sparks.length} of ${pictured.length} courses`,
  );
  if (pictured.length === 0) return;
  const compared = await page.getByTestId("comparison").count();
  must(compared > 0 || seen.sparks[0].bottom <= 800, "the first course is below the first screen");
  must(seen.sparks[0].spans === pictured[0].spans.length, "not every stretch is shaded");
}

/** The button gives the text of the ticket, as it was written. */
export async function copyTicket(page, ticket) {
  const button = page.getByTestId("ticket");
  must((await button.getAttribute("data-copies")) === ticket, "it copies another text");
  await button.click();
  await page.waitForFunction(
    () => document.querySelector("[data-testid=ticket]").textContent !== "Copy as Markdown",
  );
  must(/Copied/.test(await button.innerText()), "it says that it could not copy");
}

/** An id opens the book's page of its cause, as text. */
export async function openCause(page, data, run) {
  const known = data.causes.find((cause) => cause.id === run.findings[0].cause);
  if (!known) return;
  await page.getByTestId("finding").first().getByTestId("cause").first().click();
  const dialog = page.locator("dialog.cause-page[open]");
  await dialog.waitFor();
  must((await dialog.innerText()).includes(known.title), "the page of another cause");
  must(!/\*\*|`/.test(await dialog.innerText()), "its markup is to be seen");
  const code = await dialog.locator("code").allInnerTexts();
  const told = [...known.text.matchAll(/`([^`\n]+)`/g)].map((match) => match[1]);
  must(code.join() === told.join(), `its code is ${code.join()}`);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
}

/** Opens what is closed, and scrolls through the whole page, so that everything is drawn. */
export async function drawAll(page) {
  await page.evaluate(() => {
    document.documentElement.style.scrollBehavior = "auto";
    for (const details of document.querySelectorAll("details")) details.open = true;
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

/** What is written in a part of the page. */
export const text = (page, testid) => page.getByTestId(testid).first().innerText();

/** Waits until what `read`, run in the page, tells is as `wanted` says; looks once a frame. */
export async function until(page, read, wanted) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const told = await page.evaluate(read);
    if (wanted(told)) return told;
    must(Date.now() < end, `it stayed ${JSON.stringify(told)?.slice(0, 200)}`);
    await page.evaluate(() => new Promise((seen) => requestAnimationFrame(() => seen())));
  }
}

/** Waits until it is another than it was. */
export function changed(page, read, before) {
  return until(page, read, (told) => JSON.stringify(told) !== JSON.stringify(before));
}

/** Waits until it is again as it was. */
function restored(page, read, before) {
  return until(page, read, (told) => JSON.stringify(told) === JSON.stringify(before));
}

/** What part every chart of the time axis shows. */
function ranges() {
  const charts = document.querySelectorAll("#timelines .drawn, #threads .drawn");
  return [...charts].map((chart) => `${chart.dataset.from} ${chart.dataset.to}`);
}

/** Clicks through the first chain. */
export async function walkByPointer(page) {
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

/** Walks it forth and back with keys. */
export async function walkByKeyboard(page) {
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

/** Goes from a row to its moment in the time lines. */
export async function jumpFromRow(page) {
  const rows = page.getByTestId("step-rows").first();
  await rows.evaluate((details) => {
    details.open = true;
  });
  await rows.locator("button.link").first().click();
  await page.waitForFunction(() => {
    const { top } = document.getElementById("timelines").getBoundingClientRect();
    return top >= -5 && top < window.innerHeight / 2;
  });
}

/** Drags over a chart: all must show the same part; keys must zoom further and go back. */
export async function zoomByDrag(page) {
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
  await restored(page, ranges, before);
}

/** Filters to the sockets called as the last one, to none, and back. */
export async function filterSockets(page, run) {
  const read = () => document.querySelector("[data-testid=socket-count]").textContent;
  const all = await page.evaluate(read);
  const filter = page.getByTestId("socket-filter");
  const one = run.sockets.sockets.at(-1).name;
  await filter.fill(one);
  await changed(page, read, all);
  const shown = Number.parseInt((await page.evaluate(read)).replaceAll(",", ""), 10);
  const words = one.toLowerCase().split(/\s+/);
  const match = (socket) => {
    const texts = [socket.name, ...socket.attributes].map((t) => t.toLowerCase());
    return words.every((word) => texts.some((t) => t.includes(word)));
  };
  const expected = run.sockets.sockets.filter(match).length;
  must(shown === expected, `${shown} shown, ${expected} match`);
  const rows = await page.getByTestId("socket-table").locator("tbody tr").count();
  must(rows === Math.min(expected, 200), `the table has ${rows} rows`);
  await filter.fill("matches-nothing-at-all");
  await until(page, read, (told) => told.startsWith("0 of"));
  await filter.fill("");
  await restored(page, read, all);
}

/** Searches for a function that is there, and for one that is not. */
export async function searchFlame(page, flame) {
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

/** Zooms by pointer, back by key, and walks. */
export async function zoomFlame(page) {
  const graph = page.getByTestId("flame");
  await graph.scrollIntoViewIfNeeded();
  const frames = () =>
    [...document.querySelectorAll(".flame g.frame rect")].map((r) => r.getAttribute("width"));
  const before = await page.evaluate(frames);
  // The widest function that is not the whole.
  const which = await page.evaluate(() => {
    const wide = [...document.querySelectorAll(".flame g.frame rect")].map(
      (rect) => rect.getBoundingClientRect().width,
    );
    const whole = Math.max(...wide);
    const part = wide.map((width) => (width < whole * 0.999 ? width : 0));
    const most = Math.max(...part);
    return most > 2 ? part.indexOf(most) : -1;
  });
  if (which >= 0) {
    const frame = page.locator(".flame g.frame rect").nth(which);
    await frame.scrollIntoViewIfNeeded();
    const box = await frame.boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await changed(page, frames, before);
    must(/of the whole/.test(await text(page, "flame-at")), "it is not told what was zoomed to");
    await graph.focus();
    await page.keyboard.press("Escape");
    await until(page, frames, (told) => told.length === before.length);
  }
  await graph.focus();
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() =>
    /of the whole/.test(document.querySelector("[data-testid=flame-at]").textContent),
  );
}

/** What a hostile host calls itself must be read, not obeyed. */
export async function hostileIsText(page, data) {
  const named = JSON.stringify(data).includes(HOSTILE);
  const images = await page.locator("img").count();
  must(images === 0, `${images} images in the page`);
  if (!named) return;
  const seen = await page.evaluate((name) => document.body.textContent.includes(name), HOSTILE);
  must(seen, "the name is nowhere to be read");
}

/** Nothing may be wider than the window but what scrolls by itself. */
export async function noSidewaysScroll(page) {
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
