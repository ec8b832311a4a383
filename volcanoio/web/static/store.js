/**
 * `Store`: the rows of the cluster as they change. First one snapshot, then an event stream that resumes where it broke;
 * where a stream cannot be kept (a proxy that buffers), changes are polled.
 */

import { get, RequestError, stream } from "./api.js";
import { Rows } from "./rows.js";

/** @typedef {"loading" | "live" | "polling" | "lost"} Status */

const POLL = 3000;
const FAILURES_BEFORE_POLL = 3;
const SILENCE = 40_000;

export class Store {
  /** @param {string} namespace "" for all */
  constructor(namespace) {
    this.namespace = namespace;
    this.rows = new Rows();
    /** Kinds that the viewer may not list. @type {string[]} */
    this.missing = [];
    /** @type {Status} */
    this.status = "loading";
    /** @type {RequestError | null} */
    this.error = null;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.last = "";
    this.ended = new AbortController();
    this.isDrawing = false;
  }

  /** Call back after changes, at most once per frame; returns how to stop. @param {() => void} listener */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Read until `stop`. */
  async run() {
    let failures = 0;
    while (!this.ended.signal.aborted) {
      try {
        if (!this.last) await this.load();
        if (failures >= FAILURES_BEFORE_POLL) {
          await this.poll();
          failures = FAILURES_BEFORE_POLL - 1; // so that the stream is tried once before polling again
        } else {
          await this.follow(() => (failures = 0));
        }
      } catch (error) {
        if (this.ended.signal.aborted) return;
        failures += 1;
        this.error = error instanceof RequestError ? error : new RequestError(0, String(error));
        this.setStatus("lost");
        if (this.error.status === 401) return;
        await new Promise((done) => setTimeout(done, Math.min(500 * 2 ** failures, 10_000)));
      }
    }
  }

  stop() {
    this.ended.abort();
  }

  async load() {
    const answer = await get("state", { within: this.namespace }, this.ended.signal);
    this.missing = answer.missing;
    this.take(answer);
  }

  /** @param {() => void} onNews */
  async follow(onNews) {
    const silence = new AbortController();
    const signal = AbortSignal.any([this.ended.signal, silence.signal]);
    let timer = setTimeout(() => silence.abort(), SILENCE);
    try {
      await stream("stream", { within: this.namespace }, this.last, (event) => {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE);
        if (this.status !== "live") this.setStatus("live");
        if (!event) return;
        onNews();
        this.last = event.id;
        this.change(JSON.parse(event.data), event.event === "rows");
      }, signal);
      this.last = ""; // the server ended the stream: rights may have changed
      await new Promise((done) => setTimeout(done, 500));
    } finally {
      clearTimeout(timer);
    }
  }

  async poll() {
    this.setStatus("polling");
    for (let times = 0; times < 40; times++) {
      await new Promise((done) => setTimeout(done, POLL));
      this.take(await get("changes", { within: this.namespace, after: this.last }, this.ended.signal));
    }
  }

  /** @param {{id: string, isWhole: boolean, parts: import("./rows.js").Part[]}} answer */
  take(answer) {
    if (answer.id) this.last = answer.id;
    for (const part of answer.parts) this.change(part, answer.isWhole);
  }

  /** @param {import("./rows.js").Part} part @param {boolean} isWhole */
  change(part, isWhole) {
    this.rows.apply(part, isWhole);
    this.draw();
  }

  /** @param {Status} status */
  setStatus(status) {
    if (status !== "lost") this.error = null;
    this.status = status;
    this.draw();
  }

  draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      for (const listener of this.listeners) listener();
    });
  }
}

/** A clock of the cluster, which may run faster than that of the browser. */
export class Clock {
  /** @param {number} now @param {number} rate */
  constructor(now, rate) {
    this.start = now;
    this.began = performance.now();
    this.rate = Number.isFinite(rate) ? rate : 1;
  }

  now() {
    return this.start + ((performance.now() - this.began) / 1000) * this.rate;
  }
}
