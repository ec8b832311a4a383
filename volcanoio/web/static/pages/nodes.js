/** Nodes as a map: one square each, as dark as it is full; by zone, for one resource at a time. */

import { get } from "../api.js";
import { fill, h, s, section, set, table } from "../dom.js";
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
 * Draw the nodes of a zone: one path for each shade, so that thousands of nodes are a few elements.
 * @param {NodeRow[]} nodes @param {string} zone @param {string} resource @param {number} size @param {string} chosen
 * @param {((name: string) => void) | null} choose
 */
function zoneMap(nodes, zone, resource, size, chosen, choose) {
  const across = Math.min(nodes.length, Math.max(1, Math.floor(1040 / size)));
  const down = Math.ceil(nodes.length / across);
  const side = size - (size > 12 ? 2 : 1);
  let at = Math.max(0, nodes.findIndex((node) => node.name === chosen));
  const average = nodes.reduce((sum, node) => sum + (fullness(node, resource) || 0), 0) / nodes.length;
  /** @type {Record<string, string>} */
  const paths = {};
  nodes.forEach((node, index) => {
    const [x, y] = [(index % across) * size, Math.floor(index / across) * size];
    const level = levelOf(node, resource);
    paths[level] = `${paths[level] ?? ""}M${x} ${y}h${side}v${side}h-${side}z`;
    if (node.schedulable === false || node.ready === false) paths.cross = `${paths.cross ?? ""}M${x} ${y + side}L${x + side} ${y}`;
    if (node.ready === false) paths.cross += `M${x} ${y}L${x + side} ${y + side}`;
  });
  const frame = s("rect", { class: "focus-frame", width: side, height: side, hidden: true });
  const place = h("p", { class: "hidden", role: "status" });
  const title = s("title", {}, "");
  /** @param {number} index */
  const move = (index) => {
    at = Math.max(0, Math.min(nodes.length - 1, index));
    set(frame, { hidden: false, x: (at % across) * size, y: Math.floor(at / across) * size });
  };
  /** Return the node at a pointer, -1 for none. @param {MouseEvent} event */
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top].map((length) => Math.floor(length / ((box.width / (across * size)) * size)));
    const index = y * across + x;
    return x >= 0 && x < across && index >= 0 && index < nodes.length ? index : -1;
  };
  const svg = s("svg", {
    class: "map", width: across * size, height: down * size, viewBox: `0 0 ${across * size} ${down * size}`,
    role: "application", tabindex: 0, "aria-roledescription": "map of nodes",
    "aria-label": `${counted(nodes.length, "node")}${zone ? ` in zone ${zone}` : ""}, on average ${percent(average, 1)} of ${resource} requested. Arrow keys move, Enter chooses; the table below has all.`,
    onclick: (/** @type {MouseEvent} */ event) => {
      if (under(event) >= 0) choose?.(nodes[under(event)].name);
    },
    onpointermove: (/** @type {MouseEvent} */ event) => {
      title.textContent = under(event) >= 0 ? nodeText(nodes[under(event)], resource) : "";
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      const step = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across })[event.key];
      if (event.key === "Enter") choose?.(nodes[at].name);
      if (step === undefined) return;
      event.preventDefault();
      move(at + step);
      fill(place, nodeText(nodes[at], resource));
    },
  }, title, Object.entries(paths).map(([level, d]) => s("path", { class: level === "cross" ? "cross" : `node level-${level}`, d })), frame);
  if (nodes.some((node) => node.name === chosen)) move(at);
  return h("div", { class: "scrolls" }, svg, place);
}

/** Return the shade of a node. @param {NodeRow} node @param {string} resource */
function levelOf(node, resource) {
  const full = fullness(node, resource);
  if (Number.isNaN(full)) return "none";
  return String(Math.ceil(full * STEPS - 0.001));
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
    Array.from({ length: STEPS + 1 }, (_, level) => h("li", {}, h("span", { class: `swatch level-${level}`, "aria-hidden": "true" }), level === 0 ? "empty" : `to ${level * (100 / STEPS)} %`)),
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
