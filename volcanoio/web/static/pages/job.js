/** One job: its gang, why it waits, where its time went, pods, events, logs and manifest. */

import { get, getText, RequestError, stream } from "../api.js";
import { figures, fill, h, s, section, table } from "../dom.js";
import { amountsText, counted, durationText, timeText, tone } from "../format.js";
import { chip, gang } from "../parts.js";
import { isFinished, isWaiting, stateOf } from "../rows.js";
import { VirtualTable } from "../vtable.js";
import { offerButtons } from "./queues.js";

/** @typedef {import("../rows.js").JobRow} JobRow */
/**
 * @typedef {object} PodView
 * @property {string} name @property {string} [task] @property {string} [index] @property {string} [node]
 * @property {string} [phase] @property {string} [reason] @property {string} [message] @property {string[]} [containers]
 * @property {number} [created] @property {number} [scheduled] @property {number} [started] @property {number} [finished]
 * @property {number} [exitCode] @property {number} [restarts] @property {boolean} [terminating]
 */
/** @typedef {{pods: PodView[], tasks?: {name: string, replicas: number, minAvailable?: number, images?: string[]}[], phases?: [string, number|null][], retries?: number, maxRetry?: number, may?: Record<string, [boolean, string]>}} Details */
/** @typedef {{at: number|null, object: string, type?: string, reason?: string, message?: string, count?: number}} EventView */

const MOST_BARS = 200;
const QUESTIONS = {
  suspend: "be suspended? Its pods are deleted; it can be resumed.",
  resume: "be resumed?",
  cancel: "be cancelled? It is deleted with its pods, and cannot be brought back.",
};

/** @param {import("../app.js").Context} context @param {string} kind @param {string} namespace @param {string} name @returns {import("../app.js").Page} */
export function jobPage(context, kind, namespace, name) {
  const { store, clock, left } = context;
  const parts = kind === "Job" ? [namespace, name] : [namespace, kind === "PodGroup" ? "pg" : kind.toLowerCase(), name];
  const key = parts.join("/");
  const about = { namespace, name, kind, within: store.namespace };
  const head = h("div", {});
  const buttons = h("p", { class: "buttons" });
  const gangPart = h("div", {}, h("p", { class: "quiet" }, "Loading…"));
  const timePart = h("div", {});
  const stepPart = h("div", {});
  const podList = podTable((pod) => showLog(pod));
  const log = logPart(context, namespace);
  const why = whyPart(context, about);
  const events = eventPart(context, about);
  const element = h("div", {},
    h("p", { class: "trail" }, h("a", { href: "/jobs", "data-page": "" }, "Jobs"), " / ", namespace),
    h("h1", {}, name), head, buttons,
    h("nav", { "aria-label": "Parts of this page", class: "parts" }, ["why", "gang", "timeline", "pods", "events", "logs", "yaml"].map((id) =>
      h("a", { href: `#${id}`, onclick: (/** @type {Event} */ event) => jump(event, id) }, id === "yaml" ? "YAML" : id === "why" ? "Why" : id.charAt(0).toUpperCase() + id.slice(1)))),
    section("why", "Why", why.element), section("gang", "Gang", gangPart), section("timeline", "Timeline", timePart, stepPart),
    section("pods", "Pods", podList.element), section("events", "Events", events.element), section("logs", "Logs", log.element),
    section("yaml", "YAML", yamlPart(context, kind, namespace, name)));
  let version = -1;
  let loadedAt = 0;
  let isLoading = false;
  let timer = 0;
  /** @type {JobRow | undefined} */
  let before;

  /** @param {PodView} pod */
  function showLog(pod) {
    log.choose(pod.name);
    document.getElementById("logs")?.scrollIntoView();
    log.focus();
  }

  async function load() {
    if (isLoading) return;
    isLoading = true;
    loadedAt = performance.now();
    try {
      const details = /** @type {Details} */ (await get("job", about, left));
      draw(details);
      events.load();
      if (kind === "Job") loadSteps();
    } catch (error) {
      if (left.aborted) return;
      const missing = error instanceof RequestError && error.status === 404;
      fill(gangPart, h("p", { class: "notice bad" }, missing ? `There is no ${kind} ${namespace}/${name} (any more).` : String(/** @type {Error} */ (error).message)));
      fill(buttons);
    } finally {
      isLoading = false;
    }
  }

  async function loadSteps() {
    try {
      const steps = /** @type {[number, string, string][]} */ (await get("timeline", about, left));
      fill(stepPart, h("h3", {}, "What happened"), table("What happened, oldest first", ["Time", "Kind", "What"],
        steps.slice(-200).map(([at, what, text]) => [timeText(at, clock.now()), what, text])));
    } catch {
      if (!left.aborted) fill(stepPart);
    }
  }

  /** @param {Details} details */
  function draw(details) {
    const row = store.rows.jobs.get(key);
    if (details.may) fill(buttons, offerButtons(details.may, act));
    fill(gangPart, gangGrid(details, row, showLog));
    fill(timePart, timeline(details, row, clock.now()));
    podList.show(details.pods);
    log.offer(details.pods);
  }

  /** @param {string} action */
  async function act(action) {
    const question = /** @type {Record<string, string>} */ (QUESTIONS)[action] ?? "be changed?";
    if (await context.ask(`jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/${action}`, `Should job ${name} ${question}`)) setTimeout(load, 500);
  }

  left.addEventListener("abort", () => podList.dispose());
  const page = {
    title: `${name} (${namespace})`,
    element,
    update() {
      const row = store.rows.jobs.get(key);
      fill(head, row ? heading(row, clock.now()) : h("p", { class: "quiet" }, "Not in the cluster now."));
      if (!store.rows.version) return;
      const wait = loadedAt ? 2_000 - (performance.now() - loadedAt) : 0;
      if (row !== before || version < 0) {
        clearTimeout(timer);
        if (wait > 0) {
          timer = window.setTimeout(() => left.aborted || page.update(), wait);
          return;
        }
        why.changed(row);
        before = row;
        version = store.rows.version;
        load();
      } else if (performance.now() - loadedAt > 15_000) load();
    },
  };
  return page;
}

/** @param {Event} event @param {string} id */
function jump(event, id) {
  event.preventDefault();
  const title = document.getElementById(`${id}-title`);
  title?.scrollIntoView();
  title?.setAttribute("tabindex", "-1");
  title?.focus({ preventScroll: true });
}

/** @param {JobRow} row @param {number} now */
function heading(row, now) {
  /** @type {[string, import("../dom.js").Child][]} */
  const facts = [
    ["Queue", h("a", { href: `/queues?queue=${encodeURIComponent(row.queue ?? "")}`, "data-page": "" }, row.queue ?? "")],
    ["Priority", row.priorityClass || "–"],
    ["Requested", amountsText(row.requested)],
    ["Used", row.used ? amountsText(row.used) : "not measured"],
    ["Created", row.created ? `${timeText(row.created, now)} (${durationText(now - row.created)} ago)` : "–"],
    ["Started", row.started ? `${timeText(row.started, now)}, after ${durationText(row.started - (row.created ?? row.started))}` : "not yet"],
    ["Ended", row.ended ? `${timeText(row.ended, now)}${row.started ? `, ran ${durationText(row.ended - row.started)}` : ""}` : "–"],
  ];
  if (row.kind) facts.splice(2, 0, ["Kind", row.kind === "PodGroup" ? "PodGroup without Job" : row.kind]);
  return [
    h("p", { class: "state" }, chip(stateOf(row)), " ", gang(row), " ", `${(row.running ?? 0) + (row.succeeded ?? 0)} of ${row.replicas ?? 0} pods run or are done, ${row.minAvailable ?? 0} needed together`),
    row.message && (isWaiting(row) || row.phase === "Failed") ? h("p", { class: "message" }, row.reason ? h("strong", {}, `${row.reason}: `) : null, row.message) : null,
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
  ];
}

/** Return a pod's state in one word. @param {PodView} pod */
function podState(pod) {
  if (pod.terminating) return "Terminating";
  if (pod.phase === "Pending") return pod.node ? "Starting" : "Pending";
  return pod.phase || "Pending";
}

/** One square per pod, by task. @param {Details} details @param {JobRow | undefined} row @param {(pod: PodView) => void} open */
function gangGrid(details, row, open) {
  /** @type {Map<string, PodView[]>} */
  const tasks = new Map((details.tasks ?? []).map((task) => [task.name, []]));
  for (const pod of details.pods) tasks.set(pod.task ?? "", [...(tasks.get(pod.task ?? "") ?? []), pod]);
  if (!tasks.size && !details.pods.length) return h("p", { class: "quiet" }, row ? "It has no pods yet." : "It has no pods.");
  const specs = new Map((details.tasks ?? []).map((task) => [task.name, task]));
  const blocks = [...tasks].map(([name, pods]) => {
    const spec = specs.get(name);
    /** @type {Record<string, number>} */
    const counts = {};
    for (const pod of pods) counts[podState(pod)] = (counts[podState(pod)] ?? 0) + 1;
    const text = Object.entries(counts).map(([state, count]) => `${count} ${state}`).join(", ") || "no pods yet";
    const squares = pods.slice(0, 2000).map((pod) => h("span", {
      class: `square tone-${tone(podState(pod))}`, "data-pod": pod.name,
      title: `${pod.name}: ${podState(pod)}${pod.node ? ` on ${pod.node}` : ""}${pod.exitCode ? `, exit code ${pod.exitCode}` : ""}`,
    }));
    return h("div", { class: "task" }, h("h3", {}, name || "pods", spec ? h("span", { class: "quiet" }, ` ${counted(spec.replicas, "replica")}${spec.minAvailable !== undefined ? `, at least ${spec.minAvailable}` : ""}; ${(spec.images ?? []).join(", ")}`) : null),
      h("p", { class: "squares", role: "img", "aria-label": `${name}: ${text}`, onclick: (/** @type {Event} */ event) => {
        const found = /** @type {HTMLElement} */ (event.target).dataset.pod;
        const pod = pods.find((each) => each.name === found);
        if (pod) open(pod);
      } }, squares), h("p", { class: "quiet" }, text));
  });
  return [blocks, details.retries ? h("p", {}, `Restarted ${details.retries} of at most ${details.maxRetry || 3} times.`) : null];
}

/** Draw a bar per pod from creation to end, and the phases of the job. @param {Details} details @param {JobRow | undefined} row @param {number} now */
function timeline(details, row, now) {
  const pods = details.pods.filter((pod) => pod.created).slice(0, MOST_BARS);
  const phases = (details.phases ?? []).filter(([, at]) => at);
  const starts = [...pods.map((pod) => pod.created ?? now), ...phases.map(([, at]) => at ?? now), row?.created ?? now];
  const from = Math.min(...starts);
  const to = row?.ended ? Math.max(row.ended, ...pods.map((pod) => pod.finished ?? 0)) : now;
  const span = Math.max(1, to - from);
  const width = 760;
  const left = 150;
  /** @param {number} at */
  const x = (at) => left + (Math.max(0, Math.min(at, to) - from) / span) * (width - left - 10);
  const top = 36;
  const step = pods.length > 60 ? 6 : 16;
  const height = top + pods.length * step + 20;
  const marks = phases.map(([phase, at], index) => [
    s("line", { class: "phase", x1: x(at ?? 0), x2: x(at ?? 0), y1: 32, y2: height - 16 }),
    s("text", { class: "axis", x: x(at ?? 0) + 3, y: 11 + (index % 3) * 10 }, phase)]);
  const bars = pods.map((pod, index) => podBar(pod, top + index * step, step, x, to, step > 8));
  const axis = [0, 0.5, 1].map((share) => s("text", { class: "axis", x: x(from + share * span), y: height - 4, "text-anchor": share === 1 ? "end" : share ? "middle" : "start" }, `+${durationText(share * span)}`));
  const label = `Timeline of ${counted(details.pods.length, "pod")} over ${durationText(span)}`;
  return [
    h("ul", { class: "legend" }, [["waiting", "waiting for a node"], ["inqueue", "starting"], ["running", "running"], ["done", "succeeded"], ["bad", "failed"]].map(([kind, text]) =>
      h("li", {}, h("span", { class: `swatch tone-${kind}`, "aria-hidden": "true" }), text))),
    h("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": label }, s("svg", { class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, marks, bars, axis)),
    details.pods.length > MOST_BARS ? h("p", { class: "quiet" }, `The first ${MOST_BARS} pods are drawn; the table has all.`) : null,
    figures("Times", ["What", "At", "After"], [
      ...phases.map(([phase, at]) => [phase, timeText(at, now), durationText((at ?? from) - from)]),
      ...pods.map((pod) => [pod.name, timeText(pod.created, now), `scheduled ${pod.scheduled ? `+${durationText(pod.scheduled - from)}` : "–"}, started ${pod.started ? `+${durationText(pod.started - from)}` : "–"}, finished ${pod.finished ? `+${durationText(pod.finished - from)}` : "–"}`])]),
  ];
}

/** @param {PodView} pod @param {number} y @param {number} step @param {(at: number) => number} x @param {number} to @param {boolean} named */
function podBar(pod, y, step, x, to, named) {
  const end = pod.finished ?? to;
  const last = pod.phase === "Failed" ? "bad" : pod.phase === "Succeeded" ? "done" : "running";
  /** @param {string} kind @param {number | undefined} from @param {number | undefined} until */
  const piece = (kind, from, until) => from && until && until >= from
    ? s("rect", { class: `tone-${kind}`, x: x(from), y, width: Math.max(1.5, x(until) - x(from)), height: Math.max(2, step - 3) }) : null;
  return s("g", {}, s("title", {}, `${pod.name}: ${podState(pod)}${pod.reason ? ` (${pod.reason})` : ""}`),
    named ? s("text", { class: "axis", x: 144, y: y + step - 5, "text-anchor": "end" }, pod.name.length > 22 ? `…${pod.name.slice(-21)}` : pod.name) : null,
    piece("waiting", pod.created, pod.scheduled ?? (pod.node ? pod.created : end)),
    piece("inqueue", pod.scheduled, pod.started ?? end), piece(last, pod.started, end));
}

/** @param {(pod: PodView) => void} open */
function podTable(open) {
  /** @type {VirtualTable<PodView>} */
  const list = new VirtualTable("Pods", [
    { id: "pod", title: "Pod", sort: (pod) => pod.name, cell: (pod) => pod.name },
    { id: "phase", title: "State", sort: podState, cell: (pod) => chip(podState(pod)) },
    { id: "node", title: "Node", sort: (pod) => pod.node ?? "", cell: (pod) => pod.node ?? "–" },
    { id: "exit", title: "Exit", optional: true, numeric: true, sort: (pod) => pod.exitCode ?? -1, cell: (pod) => pod.exitCode ?? "–" },
    { id: "restarts", title: "Restarts", optional: true, numeric: true, sort: (pod) => pod.restarts ?? 0, cell: (pod) => pod.restarts ?? 0 },
    { id: "reason", title: "Reason", optional: true, sort: (pod) => pod.reason ?? "", cell: (pod) => h("span", { title: pod.message ?? "" }, pod.reason ?? "") },
    { id: "log", title: "Log", cell: (pod) => h("button", { type: "button", class: "plain", tabindex: -1, "aria-label": `Log of ${pod.name}`, onclick: () => open(pod) }, "log") },
  ], { key: (pod) => pod.name, open, rows: 10 });
  return list;
}

/** @param {import("../app.js").Context} context @param {Record<string, string>} about */
function whyPart(context, about) {
  const answer = h("div", {}, h("p", { class: "quiet" }, "Asking the scheduling engine…"));
  const remedies = h("button", { type: "button", onclick: () => load(true) }, "What would help?");
  let phase = "";

  /** @param {boolean} withRemedies */
  async function load(withRemedies) {
    remedies.disabled = true;
    if (withRemedies) fill(answer, h("p", { class: "quiet" }, "Trying changes on a copy of the cluster…"));
    try {
      const kind = about.kind.toLowerCase();
      const found = await get("why", { ...about, kind, remedies: withRemedies }, context.left);
      const waits = drawWhy(answer, found);
      remedies.hidden = !waits || withRemedies;
    } catch (error) {
      if (context.left.aborted) return;
      remedies.hidden = true;
      const text = error instanceof RequestError ? error.message : String(error);
      fill(answer, h("p", { class: "quiet" }, text));
    } finally {
      remedies.disabled = false;
    }
  }

  return {
    element: h("div", {}, answer, h("p", { class: "buttons" }, remedies)),
    /** @param {JobRow | undefined} row */
    changed(row) {
      const now = row ? `${stateOf(row)} ${row.reason} ${row.pending ?? 0}` : "gone";
      if (now === phase) return;
      phase = now;
      if (row && !isFinished(row)) load(false);
      else {
        fill(answer, h("p", { class: "quiet" }, row ? `It does not wait: it is ${stateOf(row)}.` : "It is not in the cluster."));
        remedies.hidden = true;
      }
    },
  };
}

/** Draw an answer; returns whether the job waits. @param {HTMLElement} place @param {any} found */
function drawWhy(place, found) {
  const notes = (found.notes ?? []).map((/** @type {string} */ note) => h("p", { class: "quiet" }, note));
  const answer = found.answer;
  const waits = answer?.diagnosis;
  if (!answer) fill(place, notes);
  else if (!waits) {
    const now = answer.placedNow ? `A scheduling cycle places ${counted(answer.placedNow, "pod")} of it now.` : answer.admittedNow ? "A scheduling cycle admits it now." : "";
    fill(place, h("p", {}, `It does not wait${answer.phase ? `: its PodGroup is ${answer.phase}` : ""}. ${now}`), notes);
  } else {
    fill(place,
      h("p", { class: "message" }, h("strong", {}, `It waits at ${waits.stage}: ${waits.code}. `), found.meaning ? `${found.meaning}. ` : "", waits.message),
      h("dl", { class: "facts" }, [
        ["Pods", `${waits.minAvailable ?? 0} needed together, ${waits.ready ?? 0} placed, ${waits.pending ?? 0} pending`],
        ["Place in the queue", waits.position ? `number ${waits.position} in ${waits.queue}` : "–"],
        ["Ahead", (waits.ahead ?? []).join(", ") || "none"],
      ].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      (waits.nodes ?? []).length ? table("Nodes by reason", ["Reason", "Nodes"], waits.nodes.map((/** @type {any} */ each) => [each.reason, each.nodes]), { numeric: [1] }) : null,
      (waits.nearest ?? []).length ? table("Nearest nodes", ["Node", "Short of", "Missing", "A pod requests", "Free"], waits.nearest.map((/** @type {any} */ each) => [each.node, each.resource, each.missing, each.requested, each.free])) : null,
      (answer.remedies ?? []).length ? [h("h3", {}, "Any one of these helps; each was tried on a copy of the cluster"), h("ul", {}, answer.remedies.map((/** @type {any} */ each) => h("li", {}, each.text)))] : null,
      notes);
  }
  return Boolean(waits);
}

/** @param {import("../app.js").Context} context @param {Record<string, string>} about */
function eventPart(context, about) {
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading…"));
  let last = "";
  return {
    element: place,
    async load() {
      try {
        const found = /** @type {EventView[]} */ (await get("events", about, context.left));
        const text = JSON.stringify(found);
        if (text === last) return;
        last = text;
        fill(place, found.length
          ? table("Events, newest first", ["Time", "Object", "Reason", "Message", "Times"], found.reverse().slice(0, 300).map((event) => [
            timeText(event.at, context.clock.now()), event.object, event.type === "Warning" ? h("strong", { class: "warning" }, event.reason ?? "") : event.reason ?? "", event.message ?? "", event.count ?? 1]), { numeric: [4] })
          : h("p", { class: "quiet" }, "No events are kept."));
      } catch (error) {
        if (!context.left.aborted) fill(place, h("p", { class: "quiet" }, String(/** @type {Error} */ (error).message)));
      }
    },
  };
}

/** @param {import("../app.js").Context} context @param {string} namespace */
function logPart(context, namespace) {
  const pods = h("select", { id: "log-pod", onchange: () => load() });
  const container = h("select", { id: "log-container", onchange: () => load() });
  const follow = h("input", { type: "checkbox", id: "log-follow", onchange: () => load() });
  const text = h("pre", { class: "log", tabindex: 0, "aria-label": "Log" }, "Choose a pod.");
  /** @type {Map<string, PodView>} */
  let known = new Map();
  let reading = new AbortController();

  async function load() {
    reading.abort();
    reading = new AbortController();
    const signal = AbortSignal.any([context.left, reading.signal]);
    const pod = known.get(pods.value);
    if (!pod) return;
    if (![...container.options].some((option) => option.value === container.value && (pod.containers ?? []).includes(option.value))) {
      fill(container, (pod.containers ?? []).map((name) => h("option", { value: name }, name)));
    }
    const query = { namespace, pod: pod.name, container: container.value, tail: 500 };
    try {
      if (follow.checked) {
        text.textContent = "";
        await stream("logs/follow", query, "", (event) => {
          if (event?.event === "lines") add(/** @type {string[]} */ (JSON.parse(event.data)));
        }, signal);
      } else {
        text.textContent = (await getText("logs", query, signal)) || "The log is empty.";
        text.scrollTop = text.scrollHeight;
      }
    } catch (error) {
      if (!signal.aborted) text.textContent = String(/** @type {Error} */ (error).message);
    }
  }

  /** @param {string[]} lines */
  function add(lines) {
    const atEnd = text.scrollTop + text.clientHeight > text.scrollHeight - 40;
    text.append(lines.map((line) => `${line}\n`).join(""));
    if (text.childNodes.length > 2000) text.firstChild?.remove();
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  return {
    element: h("div", {}, h("p", { class: "filters" }, h("label", { for: "log-pod" }, "Pod"), pods, h("label", { for: "log-container" }, "Container"), container,
      follow, h("label", { for: "log-follow" }, "Follow"), h("button", { type: "button", onclick: () => load() }, "Reload")), text),
    /** @param {PodView[]} list */
    offer(list) {
      const names = list.map((pod) => pod.name);
      const same = known.size === names.length && names.every((name) => known.has(name));
      known = new Map(list.map((pod) => [pod.name, pod]));
      if (same) return;
      const chosen = pods.value;
      fill(pods, names.map((name) => h("option", { value: name }, name)));
      pods.value = list.find((pod) => pod.phase === "Failed")?.name ?? names[0] ?? "";
      if (chosen && known.has(chosen)) pods.value = chosen;
      else if (names.length) load();
    },
    /** @param {string} name */
    choose(name) {
      pods.value = name;
      load();
    },
    focus() {
      text.focus({ preventScroll: true });
    },
  };
}

/** @param {import("../app.js").Context} context @param {string} kind @param {string} namespace @param {string} name */
function yamlPart(context, kind, namespace, name) {
  const text = h("pre", { class: "log", tabindex: 0, "aria-label": "Manifest" }, "");
  const part = h("details", { class: "figures", ontoggle: async () => {
    if (!part.open) return;
    try {
      text.textContent = await getText("yaml", { kind, namespace, name }, context.left);
    } catch (error) {
      if (!context.left.aborted) text.textContent = String(/** @type {Error} */ (error).message);
    }
  } }, h("summary", {}, `Manifest of ${kind} ${name}`), text);
  return part;
}
