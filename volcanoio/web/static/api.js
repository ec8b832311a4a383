/**
 * Requests to the server that sent this page. The key (on loopback) or token (in a cluster) is kept in the tab's session
 * storage and sent as a header: browsers do not send it by themselves. Event streams are read with fetch for this reason.
 */

const KEY = "volcanoio-key";

/** An error answer; `status` is the HTTP status, 0 without an answer. */
export class RequestError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** @typedef {{user: string, csrf: string, version: string, now: number, rate: number, usesTokens: boolean, charts: boolean, journal: boolean}} Session */
/** @typedef {Record<string, string | number | boolean | undefined>} Query */

/** Take the key from the fragment of the link that the command printed, and remove it from the address. */
export function takeKey() {
  const found = /^#key=([\w-]+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(KEY, found[1]);
  history.replaceState(history.state, "", location.pathname + location.search);
}

/** Keep a token that the user typed. @param {string} token */
export function keepToken(token) {
  sessionStorage.setItem(KEY, token.trim());
}

export function forgetToken() {
  sessionStorage.removeItem(KEY);
}

/** @returns {Record<string, string>} */
function authorization() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** @param {string} path @param {Query} query */
function address(path, query) {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== false);
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString();
  return `/api/${path}${text ? `?${text}` : ""}`;
}

/** @param {string} path @param {RequestInit} options @returns {Promise<Response>} */
async function send(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...authorization(), ...options.headers }, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new RequestError(0, "the server of this page does not answer");
  }
  if (response.ok) return response;
  let message = `HTTP ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // an answer of a proxy
  }
  throw new RequestError(response.status, message);
}

/** Read JSON. @param {string} path @param {Query} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, query = {}, signal) {
  return (await send(address(path, query), { signal })).json();
}

/** Read text. @param {string} path @param {Query} [query] @param {AbortSignal} [signal] @returns {Promise<string>} */
export async function getText(path, query = {}, signal) {
  return (await send(address(path, query), { signal })).text();
}

/** Act. @param {string} path @param {string} csrf @returns {Promise<any>} */
export async function act(path, csrf) {
  const headers = { "Content-Type": "application/json", "X-Volcanoio-CSRF": csrf };
  return (await send(`/api/${path}`, { method: "POST", headers, body: "{}" })).json();
}

/** @typedef {{id: string, event: string, data: string}} ServerEvent */

/**
 * Read server-sent events until the stream ends. `handle` gets the events, and null for each chunk that arrives.
 * @param {string} path @param {Query} query @param {string} lastId
 * @param {(event: ServerEvent | null) => void} handle @param {AbortSignal} signal
 */
export async function stream(path, query, lastId, handle, signal) {
  /** @type {Record<string, string>} */
  const headers = lastId ? { "Last-Event-ID": lastId } : {};
  const response = await send(address(path, query), { headers: { Accept: "text/event-stream", ...headers }, signal });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    handle(null);
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = { id: "", event: "message", data: "" };
      for (const line of block.split("\n")) {
        const at = line.indexOf(": ");
        const name = line.slice(0, at);
        if (name === "id" || name === "event" || name === "data") event[name] = line.slice(at + 2);
      }
      if (event.data) handle(event);
    }
  }
}
