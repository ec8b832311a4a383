/** The past: the cluster at any minute of a journal, chosen with a slider. */

import { get, RequestError } from "../api.js";
import { fill, h, section } from "../dom.js";
import { durationText, sortedResources, timeText } from "../format.js";
import { jobColumns } from "../parts.js";
import { resourcesOf, Rows } from "../rows.js";
import { VirtualTable } from "../vtable.js";
import { drawChoice, nodeMap } from "./nodes.js";
import { summary, trendChart } from "./overview.js";
import { queueTree } from "./queues.js";

/** @typedef {{start: number, end: number, step: number, trend?: number[][]}} Span */

const WAIT = 60;

/** @param {import("../app.js").Context} context @returns {import("../app.js").Page} */
export function historyPage(context) {
  const content = h("div", {}, h("p", { class: "quiet" }, "Reading the journal…"));
  const element = h("div", {}, h("h1", {}, "Past"), content);
  get("history", {}, context.left)
    .then((span) => fill(content, slider(context, /** @type {Span} */ (span))))
    .catch((error) => {
      if (!context.left.aborted) fill(content, h("p", { class: "quiet" }, error instanceof RequestError ? error.message : String(error)));
    });
  return { title: "Past", element };
}

/** @param {import("../app.js").Context} context @param {Span} span */
function slider(context, span) {
  const rows = new Rows();
  const place = h("div", { class: "past" });
  const jobs = new VirtualTable("Jobs at that time", jobColumns(() => shownAt), { key: (job) => `${job.namespace}/${job.name}`, rows: 12, sort: "age", down: true });
  const lists = h("div", {}, section("past-jobs", "Jobs", jobs.element));
  const label = h("output", { for: "moment", class: "moment" });
  const nodes = h("div", {});
  const choice = h("fieldset", { class: "choice" });
  let resource = "cpu";
  const asked = Number(new URLSearchParams(location.search).get("at"));
  let shownAt = asked >= span.start && asked <= span.end ? asked : span.end;
  const range = h("input", {
    type: "range", id: "moment", min: span.start, max: span.end, step: span.step, value: shownAt,
    oninput: () => move(Number(range.value)), "aria-describedby": "moment-help",
  });
  /** @param {number} minutes */
  const stepBy = (minutes) => h("button", { type: "button", "aria-label": `${Math.abs(minutes)} minutes ${minutes < 0 ? "earlier" : "later"}`, onclick: () => move(shownAt + minutes * 60) }, `${minutes < 0 ? "−" : "+"}${Math.abs(minutes)} min`);
  let timer = 0;
  let request = new AbortController();

  /** @param {number} at */
  function move(at) {
    shownAt = Math.max(span.start, Math.min(span.end, at));
    range.value = String(shownAt);
    describe();
    clearTimeout(timer);
    timer = window.setTimeout(load, WAIT);
  }

  function describe() {
    const text = `${timeText(shownAt)} (${durationText(span.end - shownAt)} before the end)`;
    fill(label, text);
    range.setAttribute("aria-valuetext", text);
  }

  async function load() {
    request.abort();
    request = new AbortController();
    history.replaceState(null, "", `/history?at=${Math.round(shownAt)}`);
    try {
      const began = performance.now();
      const part = await get("history/at", { at: shownAt }, AbortSignal.any([context.left, request.signal]));
      rows.apply(part, true);
      draw();
      place.dataset.ms = String(Math.round(performance.now() - began));
    } catch (error) {
      if (!request.signal.aborted && !context.left.aborted) fill(place, h("p", { class: "notice bad" }, String(/** @type {Error} */ (error).message)));
    }
  }

  function draw() {
    const all = [...rows.nodes.values()];
    const resources = sortedResources(resourcesOf(all));
    fill(place, summary(rows, shownAt, false), section("past-queues", "Queues", queueTree(rows, "", null)));
    drawChoice(choice, resources, resource, (name) => {
      resource = name;
      draw();
    });
    fill(nodes, nodeMap(all, resource, "", null));
    jobs.tick += 1;
    jobs.show([...rows.jobs.values()]);
  }

  context.left.addEventListener("abort", () => jobs.dispose());
  describe();
  load();
  return [
    h("div", { class: "slider" },
      h("label", { for: "moment" }, "Time"), range, label,
      h("p", { class: "buttons" }, [-60, -10, -1, 1, 10, 60].map(stepBy)),
      h("p", { id: "moment-help", class: "quiet" }, `The journal covers ${durationText(span.end - span.start)} from ${timeText(span.start)}. Arrow keys move by ${durationText(span.step)}.`)),
    span.trend?.length ? section("past-trend", "Pods over time", trendChart(span.trend, span.end, context.session.charts)) : null,
    place, section("past-nodes", "Nodes", choice, nodes), lists,
  ];
}
