// Drives the page in a headless Chromium: `node browser.mjs URL TASK...` prints one JSON line for each task.
// A click is counted by the browser itself: pointer clicks only, not keys, and choosing in a list is one click.
import { createRequire } from "node:module";

const { chromium } = createRequire(process.env.VOLCANOIO_NODE_MODULES + "/")("playwright-core");
const [url, ...wanted] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const site = new URL(url).origin;

/** Open a page that counts clicks and collects what must not happen. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(90_000); // a machine that does much else
  const problems = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of (40[0-9]|50[0-9])/.test(message.text())) problems.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== site && !request.url().startsWith("data:")) problems.push(`foreign request: ${request.url()}`);
  });
  let clicks = 0;
  const click = async (selector) => {
    clicks += 1;
    await page.locator(selector).first().click();
  };
  const choose = async (selector, value) => {
    clicks += 1;
    await page.selectOption(selector, value);
  };
  await page.goto(url);
  await page.waitForSelector("#status[data-status=live]");
  return { page, click, choose, problems, clicks: () => clicks, close: () => context.close() };
}

/** What people come for. Each begins at the overview, and returns what it has seen. */
const tasks = {
  async why({ page, click }) {
    await click("#longest a:has-text('default/starved')");
    await page.waitForSelector("#why .message");
    return page.textContent("#why .message");
  },
  async log({ page, click }) {
    await click(".tiles a[href='/jobs?state=Failed']");
    await click(".vtable a:has-text('broken')");
    await page.waitForFunction(() => document.querySelector("#logs pre")?.textContent.includes("exit"));
    return page.textContent("#logs pre");
  },
  async suspend({ page, click }) {
    await click("#find input");
    await page.keyboard.type("runner");
    await page.keyboard.press("Enter");
    await click("button[data-action=suspend]:not([disabled])");
    await click("dialog button[value=yes]");
    await page.waitForSelector(".state .chip:has-text('Aborted')");
    return page.textContent(".notice.good");
  },
  async resume({ page, click }) {
    await click(".tiles a[href='/jobs?state=Aborted']");
    await page.locator(".vtable a:has-text('runner')").waitFor();
    await page.locator(".vtable [role=row][tabindex='0']").focus();
    await page.keyboard.press("Enter");
    await click("button[data-action=resume]:not([disabled])");
    await click("dialog button[value=yes]");
    await page.waitForSelector(".state .chip:has-text('Running')");
    return page.textContent(".state");
  },
  async ahead({ page, click }) {
    await click("#pages a[href='/queues']");
    await click(".tree a:has-text('default')");
    await page.waitForSelector("#queue table, #queue .quiet:has-text('Nothing')");
    return page.textContent("#queue");
  },
  async close({ page, click }) {
    await click("#pages a[href='/queues']");
    await click("button[aria-label='close queue spare']:not([disabled])");
    await click("dialog button[value=yes]");
    await page.waitForSelector("tr:has-text('spare') .chip:has-text('Closed')");
    return page.textContent("tr:has-text('spare') .chip");
  },
  async fullest({ page, click }) {
    await click("#pages a[href='/nodes']");
    await click("input[name=resource][value=memory]");
    await click("[role=columnheader] button:has-text('Full')");
    return page.textContent(".vspace .vrow:not([hidden])");
  },
  async time({ page, click }) {
    await click(".tiles a[href='/jobs?state=Failed']");
    await click(".vtable a:has-text('broken')");
    await page.waitForSelector("svg.timeline rect.tone-bad");
    return page.getAttribute("svg.timeline", "aria-label");
  },
  async share({ page, click, choose }) {
    await click("#pages a[href='/jobs']");
    await choose("#state", "waiting");
    await choose("#queue", "default");
    const address = page.url();
    await page.reload();
    await page.waitForSelector(".vtable a:has-text('starved')");
    return `${new URL(address).search} ${await page.inputValue("#state")} ${await page.inputValue("#queue")} ${await page.locator(".vspace .vrow:not([hidden])").count()}`;
  },
};

/** Properties of the page rather than things to do. */
const checks = {
  async keyboard({ page }) {
    await page.keyboard.press("Tab");
    const first = await page.evaluate(() => document.activeElement.textContent);
    await page.keyboard.press("Enter");
    const skipped = await page.evaluate(() => document.activeElement.id);
    await page.goto(`${site}/jobs`);
    await page.waitForSelector(".vspace .vrow");
    await page.locator(".vspace [tabindex='0']").focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowDown");
    const row = await page.evaluate(() => document.activeElement.getAttribute("aria-rowindex"));
    await page.keyboard.press("Enter");
    await page.waitForSelector("h1");
    return `${first}|${skipped}|${row}|${new URL(page.url()).pathname.split("/").length}|${await page.evaluate(() => document.activeElement.id)}`;
  },
  async landmarks({ page }) {
    const found = [];
    for (const path of ["/", "/jobs", "/queues", "/nodes", "/history", "/job/default/runner"]) {
      await page.goto(site + path);
      await page.waitForSelector("h1");
      await page.waitForSelector("#status[data-status=live]");
      found.push(await page.evaluate(() => ({
        mains: document.querySelectorAll("main").length,
        headings: document.querySelectorAll("h1").length,
        current: document.querySelectorAll("nav [aria-current=page]").length,
        nameless: [...document.querySelectorAll("button, a[href], input, select, [role=img], svg[role], [role=table]")].filter((each) => {
          const labelled = each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length || each.getAttribute("aria-labelledby") || each.querySelector("img[alt]");
          return !labelled;
        }).map((each) => each.outerHTML.slice(0, 90)),
        charts: [...document.querySelectorAll(".bars, svg.drawing, svg.timeline")].filter((each) => !each.closest("section")?.querySelector("details.figures")).length,
      })));
    }
    return found;
  },
  async many({ page }) {
    await page.goto(`${site}/jobs`);
    await page.waitForFunction(() => /10,0\d\d jobs/.test(document.querySelector("[role=status].quiet")?.textContent ?? ""));
    return page.evaluate(async () => {
      const body = document.querySelector(".vbody");
      const frame = () => new Promise((done) => requestAnimationFrame(done));
      const frames = [];
      let most = 0;
      let blank = 0;
      let last = performance.now();
      const step = body.scrollHeight / 120;
      for (let at = 0; at < 120; at++) {
        body.scrollTop = at * step;
        await frame();
        await frame();
        frames.push((performance.now() - last) / 2);
        last = performance.now();
        const rows = [...document.querySelectorAll(".vspace .vrow:not([hidden])")];
        most = Math.max(most, document.querySelectorAll(".vspace .vrow").length);
        const box = body.getBoundingClientRect();
        const visible = rows.filter((row) => row.getBoundingClientRect().top < box.bottom && row.getBoundingClientRect().bottom > box.top);
        if (visible.length < Math.floor(box.height / 34) - 1) blank += 1;
      }
      frames.sort((a, b) => a - b);
      return { rows: Number(document.querySelector(".vtable").getAttribute("aria-rowcount")), most, blank, median: frames[60], p95: frames[114], longest: frames[119] };
    });
  },
  async refused({ page, click }) {
    await click("#find input");
    await page.keyboard.type("runner");
    await page.keyboard.press("Enter");
    await page.waitForSelector("button[data-action]");
    return page.$$eval("button[data-action]", (buttons) => buttons.map((button) => [button.dataset.action, button.disabled, button.title]));
  },
  async past({ page, click }) {
    await click("#pages a[href='/history']");
    await page.waitForSelector(".past[data-ms]");
    const before = await page.textContent("output.moment");
    const now = await page.textContent(".past .tiles");
    await page.locator("#moment").focus();
    await page.keyboard.press("Home");
    await page.waitForFunction((text) => document.querySelector("output.moment").textContent !== text, before);
    await page.waitForFunction((text) => document.querySelector(".past .tiles")?.textContent !== text, now);
    await page.waitForSelector("#past-queues table");
    return `${before}|${await page.textContent("output.moment")}|${await page.textContent(".past .tiles")}`;
  },
};

for (const name of wanted) {
  const state = await open();
  let result;
  try {
    result = { seen: await (tasks[name] ?? checks[name])(state) };
  } catch (error) {
    result = { failed: String(error).slice(0, 2000), text: (await state.page.textContent("main").catch(() => "")).slice(0, 1500) };
  }
  console.log(JSON.stringify({ name, clicks: state.clicks(), problems: state.problems, ...result }));
  await state.close();
}
await browser.close();
