/** Overview: is it healthy, how full is it, what is requested and unused, and who waits longest? */

import { get } from "../api.js";
import { lines } from "../charts.js";
import { figures, fill, h, section, table } from "../dom.js";
import { amountText, counted, durationText, percent, resourceTitle, sortedResources, timeText } from "../format.js";
import { barLegend, chip, utilisation, waited } from "../parts.js";
import { capacity, isWaiting, jobPath, stateOf } from "../rows.js";

/** @typedef {import("../rows.js").JobRow} JobRow */
/** @typedef {import("../rows.js").Rows} Rows */

const MOST = 8;
const STATES = ["Running", "Inqueue", "Pending", "Completed", "Failed"];

/** @param {import("../app.js").Context} context @returns {import("../app.js").Page} */
export function overviewPage(context) {
  const { store, clock, session } = context;
  const trend = h("div", {}, h("p", { class: "quiet" }, "Loading…"));
  const content = h("div", {});
  const element = h("div", {}, h("h1", {}, "Overview"), content, section("trend", "Pods over time", trend));
  let version = -1;
  let drawn = 0;

  async function loadTrend() {
    try {
      const points = /** @type {number[][]} */ (await get("trend", { within: store.namespace }, context.left));
      fill(trend, points.length < 2 ? h("p", { class: "quiet" }, "Collected from now on, every 5 s.") : trendChart(points, clock.now(), session.charts), session.charts ? null
        : h("p", { class: "quiet" }, "Charts to zoom into: pip install 'volcanoio[web]' where this server runs."));
    } catch {
      if (!context.left.aborted) fill(trend, h("p", { class: "quiet" }, "The figures over time cannot be read now."));
    }
  }
  loadTrend();
  const timer = setInterval(loadTrend, session.charts ? 60_000 : 10_000); // a new drawing ends a zoom
  context.left.addEventListener("abort", () => clearInterval(timer));

  return {
    title: "Overview",
    element,
    update() {
      const now = performance.now();
      if (store.rows.version === version && now - drawn < 9_000) return;
      version = store.rows.version;
      drawn = now;
      keepingFocus(content, () => fill(content, summary(store.rows, clock.now(), true), warnings(store)));
    },
  };
}

/** Redraw without losing which link has the focus, and which tables are open. @param {HTMLElement} content @param {() => void} draw */
export function keepingFocus(content, draw) {
  const focused = document.activeElement instanceof HTMLAnchorElement && content.contains(document.activeElement) ? document.activeElement.href : "";
  const opened = [...content.querySelectorAll("details")].map((each) => each.open);
  draw();
  [...content.querySelectorAll("details")].forEach((each, index) => (each.open = opened[index] ?? each.open));
  if (focused) [...content.querySelectorAll("a")].find((link) => link.href === focused)?.focus({ preventScroll: true });
}

/** @param {number[][]} points @param {number} now @param {boolean} withLibrary */
export function trendChart(points, now, withLibrary) {
  return lines({
    title: "Pods that run and pods that wait",
    unit: "pods",
    at: points.map((point) => point[0]),
    time: (at) => timeText(at, now),
    lines: [
      { name: "running", tone: "running", values: points.map((point) => point[1]) },
      { name: "waiting", tone: "waiting", dash: true, values: points.map((point) => point[2]) },
    ],
  }, withLibrary);
}

/** Draw what the rows show. @param {Rows} rows @param {number} now @param {boolean} isLive */
export function summary(rows, now, isLive) {
  const jobs = [...rows.jobs.values()];
  const sums = capacity(rows.nodes.values());
  const isMeasured = Object.keys(sums.used).length > 0;
  const resources = sortedResources(Object.keys(sums.allocatable)).filter((name) => name !== "ephemeral-storage");
  return [
    tiles(jobs, rows, isLive),
    section("utilisation", "Utilisation", rows.nodes.size
      ? [utilisation(sums, isMeasured), barLegend(isMeasured, false),
        figures("Utilisation", ["Resource", "Allocatable", "Requested", "Used", "Requested and unused"], resources.map((name) => [
          resourceTitle(name), amountText(name, sums.allocatable[name]), amountText(name, sums.requested[name] ?? 0),
          isMeasured && name in sums.used ? amountText(name, sums.used[name]) : "–",
          isMeasured && name in sums.used ? amountText(name, (sums.measured[name] ?? 0) - sums.used[name]) : "–"]))]
      : h("p", { class: "quiet" }, "There are no nodes, or you may not list them.")),
    h("div", { class: "columns" },
      isLive ? section("waste", "Requested and unused", waste(jobs, isMeasured)) : null,
      section("longest", "Waiting longest", longest(jobs, now))),
  ];
}

/** @param {JobRow[]} jobs @param {Rows} rows @param {boolean} isLive */
function tiles(jobs, rows, isLive) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const job of jobs) counts[stateOf(job)] = (counts[stateOf(job)] ?? 0) + 1;
  const others = Object.keys(counts).filter((state) => !STATES.includes(state)).sort();
  const nodes = [...rows.nodes.values()];
  const bad = nodes.filter((node) => node.ready === false).length;
  /** @param {string} state */
  const tile = (state) => [h("span", { class: "big" }, (counts[state] ?? 0).toLocaleString("en")), chip(state)];
  return h("ul", { class: "tiles", "aria-label": "Jobs by state" },
    [...STATES, ...others].map((state) => h("li", {}, isLive
      ? h("a", { href: `/jobs?state=${state}`, "data-page": "" }, tile(state)) : h("div", {}, tile(state)))),
    h("li", {}, isLive
      ? h("a", { href: "/nodes", "data-page": "" }, h("span", { class: "big" }, nodes.length.toLocaleString("en")), bad ? `nodes, ${bad} not ready` : "nodes")
      : h("div", {}, h("span", { class: "big" }, nodes.length.toLocaleString("en")), bad ? `nodes, ${bad} not ready` : "nodes")));
}

/** @param {JobRow[]} jobs @param {boolean} isMeasured */
function waste(jobs, isMeasured) {
  if (!isMeasured) return h("p", { class: "quiet" }, "Not known: this cluster has no metrics.k8s.io (metrics-server), or you may not read it.");
  /** @param {JobRow} job @param {string} name */
  const unused = (job, name) => Math.max(0, (job.requested?.[name] ?? 0) - (job.used?.[name] ?? 0));
  const worst = jobs.filter((job) => job.used && unused(job, "cpu") > 0).sort((a, b) => unused(b, "cpu") - unused(a, "cpu")).slice(0, MOST);
  if (!worst.length) return h("p", { class: "quiet" }, "Every running job uses what it requests.");
  return table("Jobs that request most of what they do not use", ["Job", "CPU unused", "of", "Memory unused"], worst.map((job) => [
    link(job), amountText("cpu", unused(job, "cpu")), percent(unused(job, "cpu"), job.requested?.cpu ?? 0), amountText("memory", unused(job, "memory"))]), { numeric: [1, 2, 3] });
}

/** @param {JobRow[]} jobs @param {number} now */
function longest(jobs, now) {
  const waiting = jobs.filter(isWaiting).sort((a, b) => (a.created ?? now) - (b.created ?? now)).slice(0, MOST);
  if (!waiting.length) return h("p", { class: "quiet" }, "No job waits.");
  return table("Jobs that wait longest", ["Job", "Queue", "Waits for", "Reason"], waiting.map((job) => [
    link(job), job.queue ?? "", job.started ? durationText(now - job.started) : durationText(waited(job, now)), h("span", { class: "wraps" }, job.reason ?? "")]), { numeric: [2] });
}

/** @param {JobRow} job */
function link(job) {
  return h("a", { href: jobPath(job), "data-page": "" }, `${job.namespace}/${job.name}`);
}

/** @param {import("../store.js").Store} store */
function warnings(store) {
  const closed = [...store.rows.queues.values()].filter((queue) => queue.state && queue.state !== "Open");
  const stuck = closed.filter((queue) => (queue.groups?.Pending ?? 0) + (queue.groups?.Inqueue ?? 0) > 0);
  const texts = stuck.map((queue) => `Queue ${queue.name} is ${queue.state}, and ${counted((queue.groups?.Pending ?? 0) + (queue.groups?.Inqueue ?? 0), "job")} wait in it.`);
  if (store.missing.length) texts.push(`You may not list ${store.missing.join(", ")}: these are not shown.`);
  return texts.map((text) => h("p", { class: "notice bad" }, text));
}
