/**
 * Charts as SVG, each with its figures as a table below. Lines are drawn by the chart library instead where the server has
 * it (extra `volcanoio[web]`): then they can be zoomed and read point by point.
 */

import { figures, h, s } from "./dom.js";
import { amountText, percent } from "./format.js";

/** @typedef {{name: string, tone: string, values: number[], dash?: boolean}} Line */
/** @typedef {{at: number[], lines: Line[], title: string, unit: string, time: (at: number) => string}} LineChart */

const WIDTH = 720;
const HEIGHT = 160;
const LEFT = 44;
const BOTTOM = 20;

/** @type {Promise<any> | null} */
let library = null;

/** Load the chart library, once. It adds its rules to a style sheet of ours, as the content policy allows none inline. @returns {Promise<any>} */
function loadLibrary() {
  library ??= added(h("link", { rel: "stylesheet", href: "/static/charts.css", id: "plotly.js-style-global" }))
    .then(() => added(h("script", { src: "/static/vendor/charts.js" })))
    .then(() => /** @type {any} */ (window).Plotly);
  return library;
}

/** Add an element that loads something; ends when it is loaded. @param {HTMLElement} element @returns {Promise<void>} */
function added(element) {
  return new Promise((done, fail) => {
    element.onload = () => done();
    element.onerror = () => fail(new Error("the chart library cannot be loaded"));
    document.head.append(element);
  });
}

/** Return a rounded number at or above the highest value. @param {number} highest */
function ceiling(highest) {
  if (highest <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(highest));
  return [1, 2, 5, 10].map((step) => step * power).find((value) => value >= highest) ?? highest;
}

/** Draw lines over time. @param {LineChart} chart @param {boolean} withLibrary */
export function lines(chart, withLibrary) {
  const table = figures(chart.title, ["Time", ...chart.lines.map((line) => line.name)],
    sampled(chart.at.length, 60).map((index) => [chart.time(chart.at[index]), ...chart.lines.map((line) => line.values[index])]));
  const figure = h("figure", { class: "chart" }, h("figcaption", {}, chart.title), legend(chart.lines), drawn(chart), table);
  if (withLibrary && chart.at.length > 1) {
    loadLibrary().then((plotly) => interactive(plotly, figure, chart)).catch(() => {});
  }
  return figure;
}

/** @param {Line[]} all */
function legend(all) {
  return h("ul", { class: "legend" }, all.map((line) =>
    h("li", {}, h("span", { class: `swatch tone-${line.tone}${line.dash ? " dashed" : ""}`, "aria-hidden": "true" }), line.name)));
}

/** @param {LineChart} chart */
function drawn(chart) {
  const top = ceiling(Math.max(1, ...chart.lines.flatMap((line) => line.values)));
  const first = chart.at[0] ?? 0;
  const span = Math.max(1, (chart.at.at(-1) ?? 1) - first);
  /** @param {number} at */
  const x = (at) => LEFT + ((at - first) / span) * (WIDTH - LEFT - 8);
  /** @param {number} value */
  const y = (value) => 8 + (1 - value / top) * (HEIGHT - BOTTOM - 8);
  const latest = chart.lines.map((line) => `${line.name} ${line.values.at(-1) ?? 0}`).join(", ");
  const grid = [0, 0.5, 1].map((share) => [
    s("line", { class: "grid", x1: LEFT, x2: WIDTH - 8, y1: y(share * top), y2: y(share * top) }),
    s("text", { class: "axis", x: LEFT - 6, y: y(share * top) + 4, "text-anchor": "end" }, String(share * top)),
  ]);
  const times = [0, 0.5, 1].map((share) =>
    s("text", { class: "axis", x: x(first + share * span), y: HEIGHT - 4, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" },
      chart.time(first + share * span)));
  const paths = chart.lines.map((line) => s("path", {
    class: `line tone-${line.tone}${line.dash ? " dashed" : ""}`,
    d: line.values.map((value, index) => `${index ? "L" : "M"}${x(chart.at[index]).toFixed(1)} ${y(value).toFixed(1)}`).join(""),
  }));
  return s("svg", { class: "drawing", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${chart.title}. Now: ${latest}` },
    grid, times, paths);
}

/** @param {any} plotly @param {HTMLElement} figure @param {LineChart} chart */
function interactive(plotly, figure, chart) {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const colour = (name) => style.getPropertyValue(name).trim();
  const place = h("div", { class: "interactive" });
  figure.querySelector("svg.drawing")?.replaceWith(place);
  figure.querySelector(".legend")?.remove();
  const axis = { gridcolor: colour("--rule"), zerolinecolor: colour("--rule"), color: colour("--quiet") };
  plotly.newPlot(place,
    chart.lines.map((line) => ({
      x: chart.at.map((at) => new Date(at * 1000)), y: line.values, name: line.name, mode: "lines",
      line: { color: colour(`--${line.tone}`), dash: line.dash ? "dash" : "solid", width: 2 },
    })),
    { height: 240, margin: { l: 44, r: 8, t: 8, b: 32 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--text") }, xaxis: axis, yaxis: { ...axis, rangemode: "tozero" }, legend: { orientation: "h" }, hovermode: "x unified" },
    { responsive: true, displaylogo: false, displayModeBar: false });
}

/** Return at most `most` indexes, spread evenly, always with the last. @param {number} count @param {number} most */
function sampled(count, most) {
  const step = Math.max(1, Math.ceil(count / most));
  const found = [];
  for (let index = count - 1; index >= 0; index -= step) found.unshift(index);
  return found;
}

/**
 * @typedef {object} Bar
 * @property {string} resource @property {number} whole
 * @property {number} used @property {number} requested @property {number} [inqueue]
 * @property {number} [deserved] @property {number} [capability] @property {number} [guarantee]
 */

/**
 * Draw a bar: what is used (dark), requested and unused (hatched), admitted and not placed (dotted); a tick marks
 * deserved, a wall capability, a bracket guarantee.
 * @param {Bar} bar @param {string} label
 */
export function bar(bar, label) {
  const whole = Math.max(bar.whole, bar.requested + (bar.inqueue ?? 0), bar.deserved ?? 0, bar.capability ?? 0, 1e-9);
  /** @param {number} value */
  const x = (value) => (Math.max(0, Math.min(value, whole)) / whole) * 100;
  const parts = [
    part("used", 0, x(bar.used)),
    part("unused", x(bar.used), x(bar.requested)),
    part("inqueue", x(bar.requested), x(bar.requested + (bar.inqueue ?? 0))),
    bar.guarantee ? h("span", { class: "mark guarantee", style: { left: "0%", width: `${x(bar.guarantee)}%` } }) : null,
    bar.deserved ? h("span", { class: "mark deserved", style: { left: `${x(bar.deserved)}%` } }) : null,
    bar.capability ? h("span", { class: "mark capability", style: { left: `${x(bar.capability)}%` } }) : null,
  ];
  return h("span", { class: "meter", role: "img", "aria-label": label, title: label }, parts);
}

/** @param {string} kind @param {number} from @param {number} to */
function part(kind, from, to) {
  return to > from ? h("span", { class: `part ${kind}`, style: { left: `${from}%`, width: `${to - from}%` } }) : null;
}

/** Describe a bar in words. @param {Bar} bar */
export function barText(bar) {
  /** @param {number} value */
  const text = (value) => amountText(bar.resource, value);
  const words = [`${text(bar.requested)} of ${text(bar.whole)} requested (${percent(bar.requested, bar.whole)})`];
  if (bar.used < bar.requested) words.push(`${text(bar.used)} used`);
  if (bar.inqueue) words.push(`${text(bar.inqueue)} admitted`);
  if (bar.deserved) words.push(`deserved ${text(bar.deserved)}`);
  if (bar.guarantee) words.push(`guarantee ${text(bar.guarantee)}`);
  if (bar.capability) words.push(`capability ${text(bar.capability)}`);
  return `${bar.resource}: ${words.join(", ")}`;
}
