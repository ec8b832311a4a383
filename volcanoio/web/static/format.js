/** Amounts, times and states as text. Amounts are in the scheduler's units: milli-cores, bytes, pods, thousandths. */

/** @typedef {import("./rows.js").Amounts} Amounts */

const BYTES = new Set(["memory", "ephemeral-storage"]);
const WHOLE = new Set(["memory", "pods"]);

/** Return a number with at most three significant digits below 100. @param {number} value */
function short(value) {
  if (!value) return "0";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

/** Return an amount as text, such as `38.4` cores or `153Gi`. @param {string} resource @param {number} amount */
export function amountText(resource, amount) {
  const value = WHOLE.has(resource) ? amount : amount / 1000;
  if (!BYTES.has(resource) && !resource.startsWith("hugepages-")) return short(value);
  for (const [unit, power] of /** @type {[string, number][]} */ ([["Ti", 4], ["Gi", 3], ["Mi", 2], ["Ki", 1]])) {
    if (Math.abs(value) >= 1024 ** power) return short(value / 1024 ** power) + unit;
  }
  return short(value);
}

/** Return amounts as text, in the order of `sortedResources`. @param {Amounts | undefined} amounts */
export function amountsText(amounts) {
  const names = sortedResources(Object.keys(amounts ?? {}));
  return names.map((name) => `${name} ${amountText(name, (amounts ?? {})[name] ?? 0)}`).join(", ") || "nothing";
}

/** Return resources in the order in which they are shown: cpu, memory, devices, the rest. @param {Iterable<string>} names */
export function sortedResources(names) {
  /** @param {string} name */
  const rank = (name) => (name === "cpu" ? 0 : name === "memory" ? 1 : name.includes("/") ? 2 : name === "pods" ? 3 : 4);
  return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** Return a resource's name for people. @param {string} resource */
export function resourceTitle(resource) {
  if (resource === "cpu") return "CPU";
  if (resource.endsWith("/gpu")) return `GPU (${resource.split("/")[0]})`;
  return resource.charAt(0).toUpperCase() + resource.slice(1);
}

/** Return a duration such as `3m20s` or `2d4h`. @param {number} seconds */
export function durationText(seconds) {
  const total = Math.max(0, Math.round(seconds));
  const units = /** @type {[string, number][]} */ ([["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]);
  const at = units.findIndex(([, size]) => total >= size);
  if (at < 0) return "0s";
  const [unit, size] = units[at];
  const next = units[at + 1];
  const rest = next ? Math.floor((total % size) / next[1]) : 0;
  return `${Math.floor(total / size)}${unit}${next && rest ? `${rest}${next[0]}` : ""}`;
}

/** Return a time of day, with the date unless it is that of `now`. @param {number | null | undefined} at @param {number} [now] */
export function timeText(at, now) {
  if (!at) return "–";
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString("en-GB");
  const isToday = now !== undefined && new Date(now * 1000).toDateString() === date.toDateString();
  return isToday ? time : `${date.toISOString().slice(0, 10)} ${time}`;
}

/** Return a share as a percentage. @param {number} part @param {number} whole */
export function percent(part, whole) {
  return whole > 0 ? `${Math.round((part / whole) * 100)} %` : "–";
}

/** Class of colours of a phase: each phase also has its name as text. @type {Record<string, string>} */
const TONES = {
  Running: "running", Succeeded: "done", Completed: "done", Completing: "done", Pending: "waiting", Inqueue: "inqueue",
  Failed: "bad", Unknown: "bad", Aborted: "stopped", Aborting: "stopped", Terminated: "stopped", Terminating: "stopped",
  Restarting: "inqueue", Starting: "inqueue", Open: "done", Closed: "stopped", Closing: "waiting",
};

/** Return the tone of a phase. @param {string} phase */
export function tone(phase) {
  return TONES[phase] ?? "stopped";
}

/** Return a count with its noun. @param {number} count @param {string} noun */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
