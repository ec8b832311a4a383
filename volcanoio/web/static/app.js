/** The page: signing in, navigation, and the state that all pages share. */

import { act, forgetToken, get, keepToken, RequestError, takeKey } from "./api.js";
import { fill, h, set } from "./dom.js";
import { jobPath } from "./rows.js";
import { Clock, Store } from "./store.js";
import { historyPage } from "./pages/history.js";
import { jobPage } from "./pages/job.js";
import { jobsPage } from "./pages/jobs.js";
import { nodesPage } from "./pages/nodes.js";
import { overviewPage } from "./pages/overview.js";
import { queuesPage } from "./pages/queues.js";

/**
 * What a page gets. `rows` are those of the cluster, `ask` asks before an action and takes it.
 * @typedef {object} Context
 * @property {import("./api.js").Session} session @property {Store} store @property {Clock} clock
 * @property {(path: string, question: string) => Promise<boolean>} ask
 * @property {(text: string, bad?: boolean) => void} notify
 * @property {(path: string) => void} open
 * @property {AbortSignal} left ends when the user leaves the page
 */
/** @typedef {{title: string, element: HTMLElement, update?: () => void}} Page */

const PAGES = [
  { path: "/", title: "Overview" },
  { path: "/jobs", title: "Jobs" },
  { path: "/queues", title: "Queues" },
  { path: "/nodes", title: "Nodes" },
  { path: "/history", title: "Past" },
];

const ROW_KINDS = ["Job", "PodGroup", "PodGroup.scheduling.k8s.io"];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const notices = /** @type {HTMLElement} */ (document.getElementById("notices"));
/** @type {import("./api.js").Session} */
let session;
/** @type {Store} */
let store;
/** @type {Clock} */
let clock;
/** @type {Page | null} */
let shown = null;
let leaving = new AbortController();

/** @param {Context} context @param {string} path @returns {Page} */
function pageAt(context, path) {
  const [, kind, namespace, name] = path.split("/").map(decodeURIComponent);
  if (kind === "jobs") return jobsPage(context);
  if (kind === "queues") return queuesPage(context);
  if (kind === "nodes") return nodesPage(context);
  if (kind === "history") return historyPage(context);
  const rowKind = ROW_KINDS.find((each) => each.toLowerCase() === kind);
  if (rowKind && name) return jobPage(context, rowKind, namespace, name);
  return overviewPage(context);
}

/** Show the page of the address. @param {boolean} moved whether the user came here, so that focus moves too */
function show(moved) {
  leaving.abort();
  leaving = new AbortController();
  const context = { session, store, clock, ask, notify, open, left: leaving.signal };
  shown = pageAt(context, location.pathname);
  document.title = `${shown.title} – volcanoio`;
  fill(main, shown.element);
  drawNavigation();
  shown.update?.();
  if (moved) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function drawNavigation() {
  const here = location.pathname.startsWith("/job") || location.pathname.startsWith("/podgroup") ? "/jobs" : location.pathname;
  fill(/** @type {HTMLElement} */ (document.getElementById("pages")), PAGES.map((page) =>
    h("a", { href: page.path, "aria-current": page.path === here ? "page" : null, "data-page": "" }, page.title)));
}

/** Open a page of this site. @param {string} path */
function open(path) {
  history.pushState(null, "", path);
  show(true);
}

document.addEventListener("click", (event) => {
  const link = /** @type {Element} */ (event.target).closest("a[data-page]");
  if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  open(link.pathname + link.search);
});
addEventListener("popstate", () => session && show(true));
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#key=")) begin();
});

document.getElementById("find")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = /** @type {HTMLInputElement} */ (/** @type {HTMLElement} */ (event.target).querySelector("input"));
  const wanted = field.value.trim().toLowerCase();
  if (!session || !wanted) return;
  const jobs = [...store.rows.jobs.values()];
  const exact = jobs.filter((job) => job.name === wanted || `${job.namespace}/${job.name}` === wanted);
  const found = exact.length ? exact : jobs.filter((job) => `${job.namespace}/${job.name}`.includes(wanted));
  open(found.length === 1 ? jobPath(found[0]) : `/jobs?${new URLSearchParams({ search: wanted })}`);
  field.value = "";
});

/** Show a notice, which screen readers announce. @param {string} text @param {boolean} [bad] */
function notify(text, bad = false) {
  const notice = h("p", { class: `notice ${bad ? "bad" : "good"}` }, text,
    h("button", { type: "button", class: "plain", "aria-label": "Dismiss", onclick: () => notice.remove() }, "×"));
  notices.append(notice);
  setTimeout(() => notice.remove(), bad ? 20_000 : 8_000);
}

/** Ask for confirmation, and act; returns whether it was done. @param {string} path @param {string} question */
function ask(path, question) {
  return new Promise((/** @type {(done: boolean) => void} */ done) => {
    const dialog = h("dialog", { "aria-labelledby": "question" },
      h("form", { method: "dialog" },
        h("p", { id: "question" }, question),
        h("p", { class: "buttons" },
          h("button", { value: "no", class: "plain" }, "No"), h("button", { value: "yes", class: "primary" }, "Yes"))));
    dialog.addEventListener("close", async () => {
      dialog.remove();
      done(dialog.returnValue === "yes" && (await take(path)));
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Act with the viewer's rights. @param {string} path */
async function take(path) {
  for (const isLast of [false, true]) {
    try {
      notify((await act(path, session.csrf)).message);
      return true;
    } catch (error) {
      if (isLast || !(error instanceof RequestError) || error.status !== 403) {
        notify(error instanceof Error ? error.message : String(error), true);
        return false;
      }
      const renewed = await get("session"); // the server was restarted
      if (renewed.csrf === session.csrf) {
        notify(error.message, true);
        return false;
      }
      session = renewed;
    }
  }
  return false;
}

/** Show how the connection is. */
function drawStatus() {
  const words = { loading: "loading", live: "live", polling: "every 3 s", lost: "connection lost; trying again" };
  const element = /** @type {HTMLElement} */ (document.getElementById("status"));
  if (element.dataset.status !== store.status) {
    element.dataset.status = store.status;
    fill(element, h("span", { class: `dot ${store.status}`, "aria-hidden": "true" }), words[store.status]);
  }
  if (store.error?.status === 401) signIn(store.error.message);
}

/** Let the user choose one namespace where it may not list all. */
function drawScope() {
  const element = /** @type {HTMLElement} */ (document.getElementById("scope"));
  if (store.namespace) {
    fill(element, `namespace ${store.namespace} `, h("button", { type: "button", class: "plain", onclick: () => within("") }, "all"));
  } else if (store.missing.includes("jobs.batch.volcano.sh")) {
    const field = h("input", { name: "namespace", required: true, size: 12, "aria-label": "Namespace to show", placeholder: "namespace" });
    fill(element, h("form", { class: "inline", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      within(field.value.trim());
    } }, field, h("button", {}, "Show")));
    notify("You may not list the jobs of all namespaces: choose one.", true);
  } else fill(element);
}

/** @param {string} namespace */
function within(namespace) {
  sessionStorage.setItem("volcanoio-namespace", namespace);
  store.stop();
  start();
}

/** Ask for a key or token. @param {string} problem */
function signIn(problem) {
  leaving.abort();
  shown = null;
  const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true, size: 50 });
  fill(main, h("section", { class: "sign-in", "aria-labelledby": "sign-in-title" },
    h("h1", { id: "sign-in-title" }, "Sign in"),
    h("p", { role: "alert" }, problem),
    h("form", { onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      keepToken(field.value);
      begin();
    } },
      h("label", { for: "token" }, "Key from the printed link, or a bearer token of the cluster"), field, h("button", { class: "primary" }, "Sign in")),
    h("p", { class: "quiet" }, "A token can be made with: kubectl create token ACCOUNT -n NAMESPACE. It stays in this tab.")));
  field.focus();
}

function start() {
  store = new Store(sessionStorage.getItem("volcanoio-namespace") ?? "");
  let isFirst = true;
  store.listen(() => {
    drawStatus();
    if (isFirst && store.status !== "loading") {
      isFirst = false;
      drawScope();
    }
    if (store.error?.status !== 401) shown?.update?.();
  });
  store.run();
  show(false);
}

async function begin() {
  takeKey();
  store?.stop();
  try {
    session = await get("session");
  } catch (error) {
    forgetToken();
    signIn(error instanceof Error ? error.message : String(error));
    return;
  }
  clock = new Clock(session.now, session.rate);
  const name = /** @type {HTMLElement} */ (document.getElementById("user"));
  fill(name, session.user);
  set(name, { title: "You act with the rights of this user" });
  start();
}

setInterval(() => session && shown?.update?.(), 10_000);
begin();
