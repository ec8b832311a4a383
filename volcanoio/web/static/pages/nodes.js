/** Nodes as a map: one square each, as dark as it is full; by zone, for one resource at a time. */

import { get } from "../api.js";
import { fill, h, s, section, table } from "../dom.js";
import { amountText, counted, percent, resourceTitle, sortedResources } from "../format.js";
import { chip } from "../parts.js";
import { resourcesOf } from "../rows.js";
import { VirtualTable } from "../vtable.js";

/** @typedef {import("../rows.js").NodeRow} NodeRow */

const STEPS = 5;

/** @param {import("../app.js").Context} context @returns {import("../app.js").Page} */
export function nodesPage(context) {
  const { store } = context;
  const params = new URLSearchParams(location.search);
  let resource = params.get("by") ?? "cpu";
  let chosen = params.get("node") ?? "";
  let version = -1;
  const map = h("div", {});
  const panel = h("div", { class: "panel", "aria-live": "polite" });
  const choice = h("fieldset", { class: "choice" });
  /** @type {VirtualTable<NodeRow>} */
  const list = new VirtualTable("Nodes", nodeColumns(() => resource), { key: (node) => node.name, open: (node) => choose(node.name), rows: 12, sort: "name" });
  const element = h("div", {}, h("h1", {}, "Nodes"), choice, map, panel, section("all-nodes", "All nodes", list.element));

  function keep() {
    const query = new URLSearchParams({ by: resource, ...(chosen ? { node: chosen } : {}) });
    history.replaceState(null, "", `/nodes?${query}`);
  }

  /** @param {string} name */
  function choose(name) {
    chosen = name;
    keep();
    version = -1;
    page.update?.();
    showNode(context, panel, name);
  }

  const page = {
    title: "Nodes",
    element,
    update() {
      if (store.rows.version === version) return;
      version = store.rows.version;
      const nodes = [...store.rows.nodes.values()];
      const resources = sortedResources(resourcesOf(nodes));
      if (!resources.includes(resource) && resources.length) resource = resources[0];
      drawChoice(choice, resources, resource, (name) => {
        resource = name;
        keep();
        version = -1;
        list.tick += 1;
        page.update?.();
      });
      const hadFocus = map.contains(document.activeElement);
      fill(map, nodeMap(nodes, resource, chosen, choose));
      if (hadFocus) /** @type {SVGElement | null} */ (map.querySelector("svg"))?.focus({ preventScroll: true });
      list.show(nodes);
    },
  };
  if (chosen) showNode(context, panel, chosen);
  context.left.addEventListener("abort", () => list.dispose());
  return page;
}

/** @param {HTMLElement} place @param {string[]} resources @param {string} chosen @param {(name: string) => void} choose */
export function drawChoice(place, resources, chosen, choose) {
  const known = [...place.querySelectorAll("input")].map((field) => field.value);
  if (known.join() !== resources.join()) {
    fill(place, h("legend", {}, "Show how full nodes are of"), resources.map((name) => h("label", {},
      h("input", { type: "radio", name: "resource", value: name, onchange: () => choose(name) }), " ", resourceTitle(name))));
  }
  for (const field of place.querySelectorAll("input")) field.checked = field.value === chosen;
}

/** Return how full a node is, from 0 to 1; NaN where it has none of the resource. @param {NodeRow} node @param {string} resource */
function fullness(node, resource) {
  const whole = node.allocatable?.[resource] ?? 0;
  const used = resource === "pods" ? node.pods ?? 0 : node.requested?.[resource] ?? 0;
  return whole ? Math.min(1, used / whole) : Number.NaN;
}

/**
 * Draw the map. Arrow keys move between nodes, Enter chooses one.
 * @param {NodeRow[]} nodes @param {string} resource @param {string} chosen @param {((name: string) => void) | null} choose
 */
export function nodeMap(nodes, resource, chosen, choose) {
  if (!nodes.length) return h("p", { class: "quiet" }, "There are no nodes, or you may not list them.");
  /** @type {Map<string, NodeRow[]>} */
  const zones = new Map();
  for (const node of [...nodes].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }))) {
    zones.set(node.zone ?? "", [...(zones.get(node.zone ?? "") ?? []), node]);
  }
  const size = nodes.length > 4000 ? 7 : nodes.length > 1000 ? 10 : nodes.length > 200 ? 16 : 30;
  const maps = [...zones].sort(([a], [b]) => a.localeCompare(b)).map(([zone, members]) => [
    zones.size > 1 || zone ? h("h3", {}, zone ? `Zone ${zone}` : "No zone", h("span", { class: "quiet" }, ` ${counted(members.length, "node")}`)) : null,
    zoneMap(members, zone, resource, size, chosen, choose)]);
  return [maps, mapLegend(resource)];
}

/**
 * @param {NodeRow[]} nodes @param {string} zone @param {string} resource @param {number} size @param {string} chosen
 * @param {((name: string) => void) | null} choose
 */
function zoneMap(nodes, zone, resource, size, chosen, choose) {
  const across = Math.min(nodes.length, Math.max(1, Math.floor(1040 / size)));
  const gap = size > 12 ? 2 : 1;
  let at = Math.max(0, nodes.findIndex((node) => node.name === chosen));
  const average = nodes.reduce((sum, node) => sum + (fullness(node, resource) || 0), 0) / nodes.length;
  const squares = nodes.map((node, index) => square(node, index, resource, size, gap, across, chosen));
  const frame = s("rect", { class: "focus-frame", width: size, height: size, hidden: true });
  const place = h("p", { class: "hidden", role: "status" });
  const svg = s("svg", {
    class: "map", width: across * size, height: Math.ceil(nodes.length / across) * size, viewBox: `0 0 ${across * size} ${Math.ceil(nodes.length / across) * size}`,
    role: "application", tabindex: 0, "aria-roledescription": "map of nodes",
    "aria-label": `${counted(nodes.length, "node")}${zone ? ` in zone ${zone}` : ""}, on average ${percent(average, 1)} of ${resource} requested. Arrow keys move, Enter chooses; the table below has all.`,
    onclick: (/** @type {Event} */ event) => {
      const index = /** @type {SVGElement} */ (event.target).dataset.index;
      if (index !== undefined) choose?.(nodes[Number(index)].name);
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      const move = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across })[event.key];
      if (event.key === "Enter") choose?.(nodes[at].name);
      if (move === undefined) return;
      event.preventDefault();
      at = Math.max(0, Math.min(nodes.length - 1, at + move));
      frame.removeAttribute("hidden");
      frame.setAttribute("x", String((at % across) * size));
      frame.setAttribute("y", String(Math.floor(at / across) * size));
      fill(place, nodeText(nodes[at], resource));
    },
  }, squares, frame);
  return h("div", { class: "scrolls" }, svg, place);
}

/** @param {NodeRow} node @param {number} index @param {string} resource @param {number} size @param {number} gap @param {number} across @param {string} chosen */
function square(node, index, resource, size, gap, across, chosen) {
  const full = fullness(node, resource);
  const level = Number.isNaN(full) ? "none" : Math.min(STEPS, Math.floor(full * STEPS + 0.001) + (full > 0 && full < 1 / STEPS ? 1 : 0));
  const x = (index % across) * size;
  const y = Math.floor(index / across) * size;
  const state = node.ready === false ? "not-ready" : node.schedulable === false ? "cordoned" : "";
  return s("g", {}, s("title", {}, nodeText(node, resource)),
    s("rect", { class: `node level-${level} ${state}${node.name === chosen ? " chosen" : ""}`, x: x + gap / 2, y: y + gap / 2, width: size - gap, height: size - gap, "data-index": index }),
    state ? s("path", { class: "cross", d: state === "not-ready" ? `M${x + gap} ${y + gap}L${x + size - gap} ${y + size - gap}M${x + size - gap} ${y + gap}L${x + gap} ${y + size - gap}` : `M${x + gap} ${y + size - gap}L${x + size - gap} ${y + gap}`, "data-index": index }) : null);
}

/** @param {NodeRow} node @param {string} resource */
function nodeText(node, resource) {
  const used = resource === "pods" ? node.pods ?? 0 : node.requested?.[resource] ?? 0;
  const whole = node.allocatable?.[resource] ?? 0;
  return `${node.name}: ${whole ? `${amountText(resource, used)} of ${amountText(resource, whole)} ${resource} (${percent(used, whole)})` : `no ${resource}`}, ${counted(node.pods ?? 0, "pod")}${node.ready === false ? ", not ready" : ""}${node.schedulable === false ? ", not schedulable" : ""}`;
}

/** @param {string} resource */
function mapLegend(resource) {
  return h("ul", { class: "legend" },
    Array.from({ length: STEPS + 1 }, (_, level) => h("li", {}, h("span", { class: `swatch level-${level}`, "aria-hidden": "true" }), level === 0 ? "empty" : level === STEPS ? "full" : `to ${level * (100 / STEPS)} %`)),
    h("li", {}, h("span", { class: "swatch level-none", "aria-hidden": "true" }), `no ${resource}`),
    h("li", {}, h("span", { class: "swatch crossed", "aria-hidden": "true" }, "×"), "not ready"), h("li", {}, h("span", { class: "swatch crossed", "aria-hidden": "true" }, "∕"), "not schedulable"));
}

/** @param {() => string} resource @returns {import("../vtable.js").Column<NodeRow>[]} */
function nodeColumns(resource) {
  /** @param {NodeRow} node */
  const state = (node) => (node.ready === false ? "Not ready" : node.schedulable === false ? "Cordoned" : "Ready");
  return [
    { id: "name", title: "Node", sort: (node) => node.name.replace(/\d+/g, (digits) => digits.padStart(8, "0")), cell: (node) => node.name },
    { id: "phase", title: "State", sort: state, cell: (node) => h("span", { class: `chip tone-${state(node) === "Ready" ? "done" : state(node) === "Cordoned" ? "stopped" : "bad"}` }, state(node)) },
    { id: "full", title: "Full", numeric: true, sort: (node) => fullness(node, resource()) || 0, cell: (node) => (Number.isNaN(fullness(node, resource())) ? "–" : percent(fullness(node, resource()), 1)) },
    { id: "amount", title: "Requested / allocatable", numeric: true, sort: (node) => node.requested?.[resource()] ?? 0,
      cell: (node) => `${amountText(resource(), resource() === "pods" ? node.pods ?? 0 : node.requested?.[resource()] ?? 0)} / ${amountText(resource(), node.allocatable?.[resource()] ?? 0)}` },
    { id: "used", title: "Used", optional: true, numeric: true, sort: (node) => node.used?.[resource()] ?? -1, cell: (node) => (node.used?.[resource()] !== undefined ? amountText(resource(), node.used[resource()]) : "–") },
    { id: "pods", title: "Pods", numeric: true, sort: (node) => node.pods ?? 0, cell: (node) => node.pods ?? 0 },
    { id: "zone", title: "Zone", optional: true, sort: (node) => node.zone ?? "", cell: (node) => node.zone ?? "" },
    { id: "taints", title: "Taints", optional: true, cell: (node) => (node.taints ?? []).join(", ") },
  ];
}

/** @param {import("../app.js").Context} context @param {HTMLElement} panel @param {string} name */
async function showNode(context, panel, name) {
  try {
    const { pods } = /** @type {{pods: [string, string, {name: string, phase?: string}][]}} */ (await get("node", { name, within: context.store.namespace }, context.left));
    fill(panel, section("node", ["Node ", name], pods.length
      ? table(`Pods on ${name}`, ["Pod", "Job", "State"], pods.map(([namespace, job, pod]) => [
        `${namespace}/${pod.name}`, job ? h("a", { href: `/job/${encodeURIComponent(namespace)}/${encodeURIComponent(job)}`, "data-page": "" }, job) : "–", chip(pod.phase ?? "")]))
      : h("p", { class: "quiet" }, "No pods are on it.")));
  } catch (error) {
    if (!context.left.aborted) fill(panel, h("p", { class: "notice bad" }, String(/** @type {Error} */ (error).message)));
  }
}
