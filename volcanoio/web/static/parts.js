/** Parts that several pages show: phases, gangs, bars of resources, lists of jobs. */

import { bar, barText } from "./charts.js";
import { h } from "./dom.js";
import { amountText, durationText, resourceTitle, sortedResources, tone } from "./format.js";
import { isFinished, isWaiting, jobPath, stateOf } from "./rows.js";

/** @typedef {import("./rows.js").JobRow} JobRow */

/** Show a phase: its name, in a colour with a shape of its own. @param {string} phase */
export function chip(phase) {
  return h("span", { class: `chip tone-${tone(phase)}` }, phase);
}

/** Show how much of a gang runs: filled up to running, a tick at the minimum. @param {JobRow} job */
export function gang(job) {
  const whole = Math.max(job.replicas ?? 0, job.minAvailable ?? 0, 1);
  const running = (job.running ?? 0) + (job.succeeded ?? 0);
  const label = `${running} of ${whole} pods run or are done, ${job.minAvailable ?? 0} needed together`;
  return h("span", { class: "gang", role: "img", "aria-label": label, title: label },
    h("span", { class: "part used", style: { left: "0", width: `${Math.min(1, running / whole) * 100}%` } }),
    h("span", { class: "mark deserved", style: { left: `${Math.min(1, (job.minAvailable ?? 0) / whole) * 100}%` } }));
}

/** Return the pods of a job by state, as `running/waiting/succeeded/failed`. @param {JobRow} job */
export function podCounts(job) {
  const waiting = (job.pending ?? 0) + (job.starting ?? 0);
  return `${job.running ?? 0}/${waiting}/${job.succeeded ?? 0}/${job.failed ?? 0}`;
}

/** Return the seconds that a job waited or has been waiting. @param {JobRow} job @param {number} now */
export function waited(job, now) {
  if (!job.created) return 0;
  if (job.started) return job.started - job.created;
  return isFinished(job) ? 0 : now - job.created;
}

/**
 * Columns of a list of jobs.
 * @param {() => number} now
 * @returns {import("./vtable.js").Column<JobRow>[]}
 */
export function jobColumns(now) {
  return [
    { id: "name", title: "Job", sort: (job) => `${job.namespace}/${job.name}`,
      cell: (job) => h("a", { href: jobPath(job), "data-page": "", tabindex: -1, title: `${job.namespace}/${job.name}` }, h("span", { class: "quiet" }, `${job.namespace}/`), job.name) },
    { id: "phase", title: "State", sort: stateOf, cell: (job) => chip(stateOf(job)) },
    { id: "queue", title: "Queue", sort: (job) => job.queue ?? "", cell: (job) => job.queue ?? "" },
    { id: "gang", title: "Gang", optional: true, sort: (job) => (job.running ?? 0) / Math.max(1, job.replicas ?? 1), cell: gang },
    { id: "pods", title: "Pods r/w/d/f", hint: "pods that run, wait, are done, failed", optional: true, numeric: true, sort: (job) => job.running ?? 0, cell: podCounts },
    { id: "cpu", title: "CPU", optional: true, numeric: true, sort: (job) => cpu(job), cell: (job) => amountText("cpu", cpu(job)) },
    { id: "age", title: "Age", numeric: true, sort: (job) => -(job.created ?? 0), cell: (job) => (job.created ? durationText(now() - job.created) : "–") },
    { id: "wait", title: "Waited", optional: true, numeric: true, sort: (job) => waited(job, now()), cell: (job) => (waited(job, now()) ? durationText(waited(job, now())) : "–") },
    { id: "reason", title: "Reason", optional: true, sort: (job) => reason(job), cell: (job) => h("span", { title: job.message ?? "" }, reason(job)) },
  ];
}

/** @param {JobRow} job */
function cpu(job) {
  return (job.requested?.cpu ?? 0) + (job.waiting?.cpu ?? 0);
}

/** @param {JobRow} job */
function reason(job) {
  return isWaiting(job) || job.phase === "Failed" ? (job.reason ?? "") : "";
}

/**
 * Show one bar for each resource.
 * @param {import("./rows.js").Capacity} sums @param {boolean} isMeasured
 */
export function utilisation(sums, isMeasured) {
  const resources = sortedResources(Object.keys(sums.allocatable)).filter((name) => name !== "ephemeral-storage" && sums.allocatable[name] > 0);
  return h("dl", { class: "bars" }, resources.map((name) => {
    const requested = sums.requested[name] ?? 0;
    const used = isMeasured && sums.used[name] !== undefined ? Math.min(sums.used[name], requested) : requested;
    const one = { resource: name, whole: sums.allocatable[name], used, requested };
    return [h("dt", {}, resourceTitle(name)), h("dd", {}, bar(one, barText(one)),
      h("span", { class: "figure" }, `${amountText(name, requested)} / ${amountText(name, sums.allocatable[name])}`))];
  }));
}

/** Explain the marks of bars. @param {boolean} isMeasured @param {boolean} withQueues */
export function barLegend(isMeasured, withQueues) {
  /** @param {string} kind @param {string} text */
  const entry = (kind, text) => h("li", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text);
  return h("ul", { class: "legend" },
    entry("part used", isMeasured ? "used" : "requested"), isMeasured ? entry("part unused", "requested, unused") : null,
    withQueues ? [entry("part inqueue", "admitted, not placed"), entry("mark deserved", "deserved"), entry("mark guarantee", "guarantee"), entry("mark capability", "capability")] : null);
}
