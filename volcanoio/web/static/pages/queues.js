/** Queues as a tree: who has what, who may have more, and who is ahead in a queue. */

import { get, RequestError } from "../api.js";
import { bar, barText } from "../charts.js";
import { figures, fill, h, section, table } from "../dom.js";
import { amountText, amountsText, resourceTitle, sortedResources } from "../format.js";
import { barLegend, chip } from "../parts.js";
import { add, capacity, jobPath } from "../rows.js";
import { keepingFocus } from "./overview.js";

/** @typedef {import("../rows.js").QueueRow} QueueRow */
/** @typedef {import("../rows.js").Amounts} Amounts */
/** @typedef {{queue: QueueRow, depth: number, requested: Amounts, inqueue: Amounts, used: Amounts | null, waiting: Amounts, groups: Record<string, number>}} Branch */

const MOST_RESOURCES = 3;

/** @param {import("../app.js").Context} context @returns {import("../app.js").Page} */
export function queuesPage(context) {
  const { store } = context;
  const tree = h("div", {});
  const panel = h("div", { class: "panel", "aria-live": "polite" });
  const element = h("div", {}, h("h1", {}, "Queues"), tree, panel);
  let version = -1;
  let chosen = new URLSearchParams(location.search).get("queue") ?? "";
  let isAsking = false;
  let isShown = false;
  /** Why queues cannot be opened and closed; null while that is not known. @type {string | null} */
  let refusal = null;

  async function askRights() {
    const first = store.rows.queues.keys().next().value;
    if (!first) return;
    const offers = /** @type {Record<string, [boolean, string]>} */ (await get("queue", { name: first }, context.left));
    refusal = Object.values(offers).map(([, why]) => why).find((why) => why.startsWith("you may not")) ?? "";
    version = -1;
    page.update();
  }

  /** @param {QueueRow} queue */
  function button(queue) {
    const action = (queue.state ?? "Open") === "Open" ? "close" : "open";
    if (queue.name === "root" || refusal === null) return null;
    return h("button", { type: "button", class: "small", disabled: Boolean(refusal), title: refusal, "aria-label": `${action} queue ${queue.name}`, onclick: () => askAbout(context, queue.name, action) }, action);
  }

  /** @param {string} name */
  function choose(name) {
    chosen = name;
    isShown = true;
    history.replaceState(null, "", `/queues?queue=${encodeURIComponent(name)}`);
    version = -1;
    page.update();
    showQueue(context, panel, name);
  }

  const page = {
    title: "Queues",
    element,
    update() {
      if (store.rows.version === version) return;
      version = store.rows.version;
      if (chosen && !isShown && version) {
        isShown = true;
        showQueue(context, panel, chosen);
      }
      keepingFocus(tree, () => fill(tree, queueTree(store.rows, chosen, choose, button)));
      if (refusal === null && !isAsking && store.rows.queues.size) {
        isAsking = true;
        askRights().catch(() => {});
      }
    },
  };
  return page;
}

/**
 * Draw the queues. Without `choose` their names are text.
 * @param {import("../rows.js").Rows} rows @param {string} chosen @param {((name: string) => void) | null} choose
 * @param {(queue: QueueRow) => import("../dom.js").Child} [button]
 */
export function queueTree(rows, chosen, choose, button) {
  const branches = ordered([...rows.queues.values()]);
  if (!branches.length) return h("p", { class: "quiet" }, "There are no queues, or you may not list them.");
  const sums = capacity(rows.nodes.values());
  const named = Object.keys(branches.reduce((all, branch) => add(add(add(add(all, branch.requested), branch.queue.capability), branch.queue.deserved), branch.inqueue), /** @type {Amounts} */ ({})));
  const resources = sortedResources(new Set([...named, ...Object.keys(sums.allocatable)])).filter((name) => name === "cpu" || name === "memory" || name.includes("/")).slice(0, MOST_RESOURCES);
  const isMeasured = branches.some((branch) => branch.used);
  return [
    barLegend(isMeasured, true),
    h("div", { class: "scrolls", role: "region", tabindex: 0, "aria-label": "Queues" },
      h("table", { class: "tree" },
        h("caption", { class: "hidden" }, "Queues as a tree, with what each has of what it may have"),
        h("thead", {}, h("tr", {}, ["Queue", "State", "Weight"].map((text) => h("th", { scope: "col" }, text)),
          resources.map((name) => h("th", { scope: "col", class: "wide" }, resourceTitle(name))),
          ["Running", "Admitted", "Waiting"].map((text) => h("th", { scope: "col", class: "number" }, text)),
          button ? h("th", { scope: "col" }, "Action") : null)),
        h("tbody", {}, branches.map((branch) => treeRow(branch, resources, sums.allocatable, isMeasured, chosen, choose, button))))),
    figures("Amounts of the queues", ["Queue", "Requested", "Admitted", "Waiting", "Deserved", "Guarantee", "Capability"], branches.map(({ queue, ...branch }) => [
      queue.name, amountsText(branch.requested), amountsText(branch.inqueue), amountsText(branch.waiting),
      amountsText(queue.deserved), amountsText(queue.guarantee), amountsText(queue.capability)])),
  ];
}

/**
 * @param {Branch} branch @param {string[]} resources @param {Amounts} cluster @param {boolean} isMeasured
 * @param {string} chosen @param {((name: string) => void) | null} choose @param {((queue: QueueRow) => import("../dom.js").Child) | undefined} button
 */
function treeRow(branch, resources, cluster, isMeasured, chosen, choose, button) {
  const { queue, depth } = branch;
  const name = choose
    ? h("a", { href: `/queues?queue=${encodeURIComponent(queue.name)}`, "aria-current": queue.name === chosen ? "true" : null, onclick: (/** @type {Event} */ event) => {
      event.preventDefault();
      choose(queue.name);
    } }, queue.name)
    : queue.name;
  const bars = resources.map((resource) => {
    const requested = branch.requested[resource] ?? 0;
    const one = {
      resource, requested, whole: cluster[resource] ?? 0, inqueue: branch.inqueue[resource] ?? 0,
      used: isMeasured && branch.used && resource in branch.used ? Math.min(branch.used[resource], requested) : requested,
      deserved: queue.deserved?.[resource], capability: queue.capability?.[resource], guarantee: queue.guarantee?.[resource],
    };
    return h("td", { class: "wide" }, bar(one, barText(one)), h("span", { class: "figure" }, `${amountText(resource, requested)}${queue.deserved?.[resource] !== undefined ? ` / ${amountText(resource, queue.deserved[resource])}` : ""}`));
  });
  const counts = ["Running", "Inqueue", "Pending"].map((phase) => h("td", { class: "number" }, (branch.groups[phase] ?? 0).toLocaleString("en")));
  return h("tr", { class: queue.name === chosen ? "chosen" : "" },
    h("th", { scope: "row", style: { "padding-left": `${0.6 + depth * 1.2}rem` } }, depth ? h("span", { class: "hidden" }, `below ${queue.parent}: `) : null, depth ? h("span", { class: "branch", "aria-hidden": "true" }, "└ ") : null, name),
    h("td", {}, chip(queue.state ?? "Open")), h("td", { class: "number" }, queue.weight ?? 1), bars, counts,
    button ? h("td", {}, button(queue)) : null);
}

/** Return the queues in the order of the tree, each with the sums over its branch. @param {QueueRow[]} queues @returns {Branch[]} */
export function ordered(queues) {
  const names = new Set(queues.map((queue) => queue.name));
  /** @type {Map<string, QueueRow[]>} */
  const below = new Map();
  for (const queue of queues) {
    const parent = queue.name === "root" ? "" : names.has(queue.parent ?? "") ? (queue.parent ?? "") : names.has("root") ? "root" : "";
    below.set(parent, [...(below.get(parent) ?? []), queue]);
  }
  /** @type {Branch[]} */
  const found = [];
  /** @param {string} parent @param {number} depth @param {Set<string>} above @returns {Branch[]} */
  const visit = (parent, depth, above) => (below.get(parent) ?? []).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true })).filter((queue) => !above.has(queue.name)).map((queue) => {
    /** @type {Branch} */
    const branch = { queue, depth, requested: { ...queue.requested }, inqueue: { ...queue.inqueue }, waiting: { ...queue.waiting }, used: queue.used ? { ...queue.used } : null, groups: { ...queue.groups } };
    found.push(branch);
    for (const child of visit(queue.name, depth + 1, new Set([...above, queue.name]))) {
      add(branch.requested, child.requested);
      add(branch.inqueue, child.inqueue);
      add(branch.waiting, child.waiting);
      add(branch.groups, child.groups);
      if (child.used) branch.used = add(branch.used ?? {}, child.used);
    }
    return branch;
  });
  visit("", 0, new Set());
  return found;
}

/** Show one queue: its figures, what may be done, and who waits in which order. @param {import("../app.js").Context} context @param {HTMLElement} panel @param {string} name */
async function showQueue(context, panel, name) {
  const queue = context.store.rows.queues.get(name);
  const buttons = h("p", { class: "buttons" });
  const waiting = h("div", {}, h("p", { class: "quiet" }, "Asking the scheduling engine…"));
  fill(panel, section("queue", ["Queue ", name],
    h("p", {}, queue ? `Priority ${queue.priority ?? 0}; ${queue.reclaimable === false ? "not reclaimable" : "reclaimable"}. ` : "",
      h("a", { href: `/jobs?queue=${encodeURIComponent(name)}`, "data-page": "" }, "Jobs of this queue")),
    buttons, h("h3", {}, "Who is ahead"), waiting));
  get("queue", { name }, context.left).then((offers) => fill(buttons, offerButtons(offers, (action) =>
    askAbout(context, name, action).then((done) => {
      if (done) setTimeout(() => showQueue(context, panel, name), 1000);
    })))).catch((error) => fill(buttons, String(error.message)));
  try {
    const why = await get("why", { kind: "queue", name, within: context.store.namespace }, context.left);
    fill(waiting, whoIsAhead(why, context.store.rows));
  } catch (error) {
    if (!context.left.aborted) fill(waiting, h("p", { class: "notice bad" }, error instanceof RequestError ? error.message : String(error)));
  }
}

/** @param {import("../app.js").Context} context @param {string} name @param {string} action */
function askAbout(context, name, action) {
  const what = action === "open" ? "opened" : "closed (its jobs go on, and no further ones are taken)";
  return context.ask(`queues/${encodeURIComponent(name)}/${action}`, `Should queue ${name} be ${what}?`);
}

/** @param {any} why @param {import("../rows.js").Rows} rows */
function whoIsAhead(why, rows) {
  const byGroup = new Map([...rows.jobs.values()].map((job) => [`${job.namespace}/${job.group}`, job]));
  /** @param {string} group */
  const link = (group) => {
    const job = byGroup.get(group);
    return job ? h("a", { href: jobPath(job), "data-page": "" }, `${job.namespace}/${job.name}`) : group;
  };
  const notes = (why.notes ?? []).map((/** @type {string} */ note) => h("p", { class: "quiet" }, note));
  if (!why.answer) return notes;
  const { waiting, placedNow } = why.answer;
  return [
    placedNow.length ? h("p", {}, "A scheduling cycle places pods of these now: ", placedNow.map((/** @type {string} */ group) => [link(group), " "])) : null,
    waiting.length
      ? table("Who waits, in order", ["Job", "Number", "Stage", "Code", "Message"], waiting.map((/** @type {any} */ job) => [
        link(job.target), job.position || "–", job.stage, job.code, job.message]), { numeric: [1] })
      : h("p", { class: "quiet" }, "Nothing waits in this queue."),
    notes,
  ];
}

/**
 * Make a button for each action; one that cannot be taken is disabled and says why.
 * @param {Record<string, [boolean, string]>} offers @param {(action: string) => void} take
 */
export function offerButtons(offers, take) {
  return Object.entries(offers).map(([action, [allowed, why]]) => {
    const title = action.charAt(0).toUpperCase() + action.slice(1);
    return [
      h("button", { type: "button", disabled: !allowed, title: why, "data-action": action, "aria-describedby": why ? `why-${action}` : null, onclick: () => take(action) }, title),
      why ? h("span", { id: `why-${action}`, class: "hidden" }, why) : null,
    ];
  });
}

