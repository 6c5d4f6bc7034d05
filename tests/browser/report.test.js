// The report in a real browser: opened from the disk, read, sorted, filtered, switched to dark.
// The page is generated from synthetic evidence, some of which is hostile.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { launch, PATIENCE } from "./chromium.js";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const folder = mkdtempSync(join(tmpdir(), "warpsmith-browser-"));
const PHONE = { width: 390, height: 844 };
const DESKTOP = { width: 1280, height: 900 };

let browser;

const generate = (name, ...options) => {
  const path = join(folder, name);
  const cargo = process.env.CARGO ?? "cargo";
  // Of everything that CI has compiled already.
  const profile = process.env.WARPSMITH_PROFILE ?? "dev";
  const example = ["run", "--quiet", "--profile", profile, "-p", "warpsmith-evidence", "--example", "sample_report", "--"];
  execFileSync(cargo, [...example, path, ...options], { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  return pathToFileURL(path).href;
};

const pages = {};

before(async () => {
  browser = await launch();
  pages.full = generate("full.html");
  pages.empty = generate("empty.html", "empty");
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens a page and hands it to the test together with everything that it complained about. */
const withPage = async (url, options, use) => {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (request.url() !== url) complaints.push(`asked for ${request.url()}`);
  });
  try {
    await page.goto(url);
    await use(page);
    assert.deepEqual(complaints, [], "the page complained or asked for something");
    assert.equal(await page.evaluate(() => window.hacked), undefined, "a hostile text was run");
  } finally {
    await context.close();
  }
};

const cells = (page, column) =>
  page.$$eval(`#trial-table tbody tr.trial td:nth-child(${column})`, (tds) => tds.map((td) => td.textContent));
const count = (page) => page.textContent("#trial-count");
const waitForCount = (page, pattern) =>
  page.waitForFunction((source) => new RegExp(source).test(document.getElementById("trial-count").textContent), pattern.source);
const hasNoSidewaysScroll = async (page) => {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= window, `the body is ${content} px wide in a window of ${window} px`);
};

/** Lists what a page cuts off: cells with a verdict, and names on cards, that reach out of their boxes. */
const cutOff = (page) => page.evaluate(() => {
  const cut = [];
  for (const badge of document.querySelectorAll(".badge")) {
    const inner = badge.getBoundingClientRect();
    for (let box = badge.parentElement; box; box = box.parentElement) {
      const outer = box.getBoundingClientRect();
      const clips = getComputedStyle(box).overflowX !== "visible";
      if (clips && inner.right > outer.right + 1) cut.push(`${badge.textContent} in ${box.className}`);
    }
  }
  for (const element of document.querySelectorAll(".card, .card *, .params")) {
    if (element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0) cut.push(element.textContent);
  }
  return cut;
});

describe("the report", () => {
  test("shows every section, with a winner and charts", () => withPage(pages.full, {}, async (page) => {
    const titles = await page.$$eval("main section > h2", (all) => all.map((h2) => h2.textContent));
    assert.deepEqual(titles, [
      "Summary", "Comparison", "Why the results can be trusted", "The search over time",
      "Effect of each parameter", "Distance to the machine’s limits",
      "Does the microbenchmark predict?", "Failures", "All trials", "Environment and settings",
    ]);
    assert.match(await page.textContent(".headline"), /^30_register_tile is 38\.0x as fast as 00_naive/);
    for (const section of ["comparison", "convergence", "effects", "roofline", "micro"]) {
      const labels = await page.$$eval(`#${section} svg.chart`, (all) => all.map((svg) => svg.getAttribute("aria-label")));
      assert.ok(labels.length > 0 && labels.every(Boolean), `${section} has charts with labels`);
      assert.ok(await page.$(`#${section} svg.chart title`), `${section} has hover titles`);
    }
  }));

  test("sorts by a column, both ways", () => withPage(pages.full, {}, async (page) => {
    const header = page.locator("#trial-table th", { hasText: "Ratio of single times" });
    await header.locator("button").click();
    assert.equal(await header.getAttribute("aria-sort"), "descending");
    const fastest = (await cells(page, 6)).filter((text) => text !== "–").map(parseFloat);
    assert.ok(fastest.length > 50);
    assert.deepEqual(fastest, [...fastest].sort((a, b) => b - a));
    await header.locator("button").click();
    assert.equal(await header.getAttribute("aria-sort"), "ascending");
    const slowest = (await cells(page, 6)).map(parseFloat);
    assert.ok(slowest[0] <= slowest[1], "the slowest comes first, and what has no value last");
    await page.locator("#trial-table th button", { hasText: "Kernel" }).click();
    // The hostile name begins with "<" and comes first.
    assert.deepEqual((await cells(page, 2)).slice(1, 4), ["00_naive", "20_vector", "30_register_tile"]);
  }));

  test("filters by words, verdict and fidelity", () => withPage(pages.full, {}, async (page) => {
    assert.equal(await count(page), "233 of 233 shown");
    await page.fill("#filter-text", "block_m=32 clang");
    await waitForCount(page, /^(?!233 )\d+ of 233 shown$/);
    const params = await cells(page, 3);
    assert.ok(params.length > 5);
    assert.ok(params.every((text) => text.includes("BLOCK_M=32") && text.includes("CC=clang")));
    await page.fill("#filter-text", "no such kernel");
    await waitForCount(page, /^0 of/);
    await page.fill("#filter-text", "");
    await waitForCount(page, /^233 of/);
    await page.selectOption("#filter-verdict", "compile failed");
    assert.ok((await cells(page, 5)).every((text) => text === "compile failed"));
    await page.selectOption("#filter-verdict", "");
    await page.selectOption("#filter-fidelity", "full");
    assert.equal(await count(page), "4 of 233 shown");
  }));

  test("draws further rows by its button and by scrolling", () => withPage(pages.full, {}, async (page) => {
    assert.equal((await cells(page, 1)).length, 100);
    await page.dispatchEvent("#trial-more", "click");
    assert.equal((await cells(page, 1)).length, 200);
    await page.evaluate(() => { const box = document.getElementById("trial-box"); box.scrollTop = box.scrollHeight; });
    await page.waitForFunction(() => document.querySelectorAll("#trial-table tr.trial").length === 233);
    assert.equal(await page.isVisible("#trial-more"), false);
  }));

  test("opens a trial with its source, command and samples", () => withPage(pages.full, {}, async (page) => {
    const open = page.getByRole("button", { name: "Trial 0, details" });
    await open.click();
    assert.equal(await open.getAttribute("aria-expanded"), "true");
    assert.match(await page.textContent("tr.detail pre.source"), /#include <stdint\.h>[\s\S]*void saxpy\(/);
    assert.match(await page.textContent("tr.detail pre.command"), /^gcc -shared .*-DBLOCK_M=8 /);
    assert.equal(await page.locator("tr.detail svg.strip").count(), 1);
    await open.click();
    assert.equal(await page.locator("tr.detail").count(), 0);
  }));

  test("shows hostile texts as texts", () => withPage(pages.full, {}, async (page) => {
    await page.fill("#filter-text", "window.hacked");
    await waitForCount(page, /^1 of/);
    const [kernel] = await cells(page, 2);
    assert.ok(kernel.startsWith("</script><script>window.hacked=1</script><img src=x"), kernel);
    assert.ok(kernel.endsWith("\u241b[31m\u2400⟨U+202E⟩"), "control characters are made visible");
    await page.click("#trial-table tbody td button");
    assert.match(await page.textContent("tr.detail pre.source"), /^\/\/ <\/script><script>window\.hacked=1/);
    assert.match(await page.textContent("tr.detail pre.log"), /^cc1: warning: <\/script>/);
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.locator("script").count(), 2);
  }));

  test("follows the system's theme and switches to the other", () => withPage(pages.full, { colorScheme: "light" }, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await page.click("#theme");
    const dark = await background();
    assert.notEqual(dark, light);
    await page.emulateMedia({ colorScheme: "dark" });
    assert.equal(await background(), dark, "what was chosen stays");
    await page.click("#theme");
    assert.equal(await background(), light);
  }));

  test("is dark by itself where the system is", () => withPage(pages.full, { colorScheme: "dark" }, async (page) => {
    const [red] = (await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).match(/\d+/g);
    assert.ok(Number(red) < 60, `the background's red is ${red}`);
    assert.equal(await page.textContent("#theme"), "Light");
  }));

  test("fits a phone, also with a trial open", () => withPage(pages.full, { viewport: PHONE, isMobile: true, hasTouch: true }, async (page) => {
    await hasNoSidewaysScroll(page);
    await page.locator("#trial-table tbody td button").first().tap();
    await hasNoSidewaysScroll(page);
    const box = await page.locator(".detail-box").boundingBox();
    assert.ok(box.width <= PHONE.width, `the details are ${box.width} px wide`);
  }));

  test("cuts no verdict, no card and no parameter on a desk", () => withPage(pages.full, {}, async (page) => {
    // Names as long as those that a search gives its finalists.
    await page.evaluate(() => {
      const long = "40_fused_softmax (BLOCK_N=64 CC=gcc DIM_TILE=4 GROUPS=8 KEY_TILE=4 QUERY_VECTORS=2)";
      for (const name of document.querySelectorAll("td.who, .card code")) name.textContent = long;
    });
    assert.ok((await page.$$("#comparison .badge")).length > 5);
    assert.deepEqual(await cutOff(page), []);
    const lines = await page.$$eval(".card .ratio", (all) => all.map((ratio) => ratio.getClientRects().length && ratio.offsetHeight));
    assert.ok(Math.max(...lines) < 1.5 * Math.min(...lines), `ratios on cards stand in one line: ${lines}`);
  }));

  test("can be read without JavaScript", () => withPage(pages.full, { javaScriptEnabled: false }, async (page) => {
    assert.match(await page.locator(".headline").innerText(), /30_register_tile/);
    assert.ok(await page.locator("#roofline svg.chart").isVisible());
    assert.ok(await page.locator("#trials noscript").isVisible());
    assert.equal(await page.locator("#trial-controls").isVisible(), false);
  }));

  test("prints every section without the controls", () => withPage(pages.full, {}, async (page) => {
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator("nav").isVisible(), false);
    assert.equal(await page.locator("#trial-controls").isVisible(), false);
    const pdf = await page.pdf({ format: "A4" });
    assert.ok(pdf.length > 50_000);
  }));

  test("says in words what is not there", () => withPage(pages.empty, {}, async (page) => {
    for (const [section, words] of Object.entries({
      summary: "There is no winner", comparison: "No paired comparison was run.",
      micro: "No microbenchmark was run.", trials: "No trial was recorded.",
    })) {
      assert.ok((await page.textContent(`#${section}`)).includes(words), `${section} says "${words}"`);
    }
    await hasNoSidewaysScroll(page);
  }));
});
