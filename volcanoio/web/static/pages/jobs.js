/** Jobs: what waits, for how long? A list of any length; its filters are in the address. */

import { fill, h } from "../dom.js";
import { counted } from "../format.js";
import { jobColumns } from "../parts.js";
import { isWaiting, jobPath, stateOf } from "../rows.js";
import { VirtualTable } from "../vtable.js";

/** @typedef {import("../rows.js").JobRow} JobRow */

const FIELDS = ["search", "state", "queue", "namespace", "priority"];

/** @param {import("../app.js").Context} context @returns {import("../app.js").Page} */
export function jobsPage(context) {
  const { store, clock } = context;
  const filters = Object.fromEntries(new URLSearchParams(location.search));
  /** @type {VirtualTable<JobRow>} */
  const list = new VirtualTable("Jobs", jobColumns(() => clock.now()), {
    key: (job) => `${job.namespace}/${job.name}`,
    open: (job) => context.open(jobPath(job)),
    sort: filters.sort ?? "age",
    down: filters.down !== undefined ? filters.down === "true" : true,
    rows: 18,
    onSort: (id, down) => keep({ sort: id, down: String(down) }),
  });
  const count = h("p", { class: "quiet", role: "status" });
  const search = h("input", { type: "search", id: "search", value: filters.search ?? "", placeholder: "name or reason", oninput: () => change("search", search.value) });
  /** @type {Record<string, HTMLSelectElement>} */
  const selects = {};
  for (const [name, all] of [["state", "all states"], ["queue", "all queues"], ["namespace", "all namespaces"], ["priority", "all priorities"]]) {
    selects[name] = h("select", { id: name, onchange: () => change(name, selects[name].value) }, h("option", { value: "" }, all));
  }
  const form = h("form", { class: "filters", role: "search", "aria-label": "Filter jobs", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    h("label", { for: "search", class: "hidden" }, "Name or reason contains"), search,
    Object.entries(selects).map(([name, select]) => [h("label", { for: name, class: "hidden" }, name), select]),
    h("button", { type: "button", class: "plain", onclick: clear }, "Clear"));
  const element = h("div", {}, h("h1", {}, "Jobs"), form, count, list.element);
  let version = -1;
  let tick = 0;

  /** @param {Record<string, string>} changes */
  function keep(changes) {
    Object.assign(filters, changes);
    const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== "")).toString();
    history.replaceState(null, "", `${location.pathname}${query ? `?${query}` : ""}`);
  }

  /** @param {string} name @param {string} value */
  function change(name, value) {
    keep({ [name]: value });
    version = -1;
    update();
  }

  function clear() {
    keep(Object.fromEntries(FIELDS.map((name) => [name, ""])));
    search.value = "";
    for (const select of Object.values(selects)) select.value = "";
    version = -1;
    update();
  }

  /** Offer what occurs. @param {JobRow[]} jobs */
  function offer(jobs) {
    options(selects.state, ["waiting", ...unique(jobs, stateOf)], filters.state);
    options(selects.queue, unique(jobs, (job) => job.queue ?? ""), filters.queue);
    options(selects.namespace, unique(jobs, (job) => job.namespace), filters.namespace);
    options(selects.priority, unique(jobs, (job) => job.priorityClass ?? ""), filters.priority);
  }

  function update() {
    const now = Math.floor(performance.now() / 9_000);
    if (store.rows.version === version && now === tick) return;
    if (now !== tick) list.tick += 1;
    tick = now;
    version = store.rows.version;
    const jobs = [...store.rows.jobs.values()];
    offer(jobs);
    const shown = jobs.filter((job) => fits(job, filters));
    fill(count, shown.length === jobs.length ? counted(jobs.length, "job") : `${shown.length.toLocaleString("en")} of ${counted(jobs.length, "job")}`);
    list.show(shown);
  }

  context.left.addEventListener("abort", () => list.dispose());
  return { title: "Jobs", element, update };
}

/** Whether a job passes the filters. @param {JobRow} job @param {Record<string, string>} filters */
export function fits(job, filters) {
  if (filters.state && (filters.state === "waiting" ? !isWaiting(job) : stateOf(job) !== filters.state)) return false;
  if (filters.queue && (job.queue ?? "") !== filters.queue) return false;
  if (filters.namespace && job.namespace !== filters.namespace) return false;
  if (filters.priority && (job.priorityClass ?? "") !== filters.priority) return false;
  if (!filters.search) return true;
  const wanted = filters.search.toLowerCase();
  return `${job.namespace}/${job.name} ${job.reason ?? ""} ${job.message ?? ""}`.toLowerCase().includes(wanted);
}

/** @param {JobRow[]} jobs @param {(job: JobRow) => string} of */
function unique(jobs, of) {
  const found = new Set(jobs.map(of));
  found.delete("");
  return [...found].sort();
}

/** Set the options of a field if they changed; the first one stays. @param {HTMLSelectElement} select @param {string[]} values @param {string | undefined} chosen */
function options(select, values, chosen) {
  const wanted = chosen && !values.includes(chosen) ? [...values, chosen] : values;
  const known = [...select.options].slice(1).map((option) => option.value);
  if (known.length !== wanted.length || known.some((value, index) => value !== wanted[index])) {
    fill(select, select.options[0], wanted.map((value) => h("option", { value }, value)));
  }
  select.value = chosen ?? "";
}
