/**
 * The rows that the server sends (volcanoio/engine/overview.py), and sums over them. Fields at their default are absent.
 */

/** @typedef {Record<string, number>} Amounts */
/**
 * @typedef {object} JobRow
 * @property {string} namespace @property {string} name @property {string} [kind] @property {string} [queue]
 * @property {string} [phase] @property {string} [reason] @property {string} [message]
 * @property {string} [group] @property {string} [groupPhase] @property {string} [priorityClass]
 * @property {number} [minAvailable] @property {number} [replicas]
 * @property {number} [created] @property {number} [started] @property {number} [ended]
 * @property {number} [pending] @property {number} [starting] @property {number} [running]
 * @property {number} [succeeded] @property {number} [failed] @property {number} [terminating]
 * @property {Amounts} [requested] @property {Amounts} [waiting] @property {Amounts} [minResources] @property {Amounts} [used]
 */
/**
 * @typedef {object} QueueRow
 * @property {string} name @property {string} [parent] @property {string} [state] @property {number} [weight]
 * @property {number} [priority] @property {boolean} [reclaimable]
 * @property {Amounts} [capability] @property {Amounts} [deserved] @property {Amounts} [guarantee]
 * @property {Amounts} [allocated] @property {Amounts} [requested] @property {Amounts} [waiting]
 * @property {Amounts} [inqueue] @property {Amounts} [used] @property {Record<string, number>} [groups]
 */
/**
 * @typedef {object} NodeRow
 * @property {string} name @property {boolean} [ready] @property {boolean} [schedulable] @property {string} [zone]
 * @property {string[]} [taints] @property {Amounts} [allocatable] @property {Amounts} [requested] @property {Amounts} [used]
 * @property {number} [pods]
 */
/** @typedef {{jobs?: Record<string, JobRow|null>, queues?: Record<string, QueueRow|null>, nodes?: Record<string, NodeRow|null>}} Part */

const FINISHED = new Set(["Completed", "Failed", "Terminated", "Aborted"]);

/** Rows of a cluster at one time. */
export class Rows {
  constructor() {
    /** @type {Map<string, JobRow>} */
    this.jobs = new Map();
    /** @type {Map<string, QueueRow>} */
    this.queues = new Map();
    /** @type {Map<string, NodeRow>} */
    this.nodes = new Map();
    /** Grows with each change. */
    this.version = 0;
  }

  /** Apply changes; with `isWhole` they are all there is. @param {Part} part @param {boolean} isWhole */
  apply(part, isWhole) {
    this.version += 1;
    replace(this.jobs, part.jobs, isWhole);
    replace(this.queues, part.queues, isWhole);
    replace(this.nodes, part.nodes, isWhole);
  }
}

/**
 * @template T
 * @param {Map<string, T>} rows @param {Record<string, T | null> | undefined} changes @param {boolean} isWhole
 */
function replace(rows, changes, isWhole) {
  if (isWhole) rows.clear();
  for (const [key, row] of Object.entries(changes ?? {})) {
    if (row === null) rows.delete(key);
    else rows.set(key, row);
  }
}

/** Add amounts in place. @param {Amounts} total @param {Amounts | undefined} other */
export function add(total, other) {
  for (const name in other) total[name] = (total[name] ?? 0) + other[name];
  return total;
}

/** @typedef {{allocatable: Amounts, requested: Amounts, used: Amounts, measured: Amounts}} Capacity */

/** Return sums over nodes; those that cannot take pods offer nothing. @param {Iterable<NodeRow>} nodes @returns {Capacity} */
export function capacity(nodes) {
  /** @type {Capacity} */
  const sums = { allocatable: {}, requested: {}, used: {}, measured: {} };
  for (const node of nodes) {
    if (node.ready !== false && node.schedulable !== false) add(sums.allocatable, node.allocatable);
    add(sums.requested, node.requested);
    sums.requested.pods = (sums.requested.pods ?? 0) + (node.pods ?? 0);
    if (node.used) {
      add(sums.used, node.used);
      add(sums.measured, node.requested);
    }
  }
  return sums;
}

/** Return the state of a job in one word that people filter by. @param {JobRow} job */
export function stateOf(job) {
  const phase = job.phase || "Unknown"; // pods that are left of a deleted job
  if (phase === "Pending" && job.groupPhase === "Inqueue") return "Inqueue";
  return phase;
}

/** Whether a job waits for room or admission. @param {JobRow} job */
export function isWaiting(job) {
  return !isFinished(job) && ((job.pending ?? 0) > 0 || ["Pending", "Inqueue"].includes(stateOf(job)));
}

/** @param {JobRow} job */
export function isFinished(job) {
  return FINISHED.has(job.phase ?? "");
}

/** Return the path of a job's page. @param {JobRow} job */
export function jobPath(job) {
  return `/${(job.kind ?? "Job").toLowerCase()}/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;
}

/** Return the resources of all nodes that are shown. @param {Iterable<NodeRow>} nodes */
export function resourcesOf(nodes) {
  /** @type {Set<string>} */
  const names = new Set();
  for (const node of nodes) for (const name of Object.keys(node.allocatable ?? {})) names.add(name);
  for (const name of names) if (name.startsWith("hugepages-") || name.startsWith("attachable-")) names.delete(name);
  names.delete("ephemeral-storage");
  return names;
}
