// Times, numbers and states as people say them.
import { el } from "./dom.js";

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "short" });
const STEPS = [["minute", 60_000], ["hour", 3_600_000], ["day", 86_400_000]];

/** 12,034 */
export const count = (number) => number.toLocaleString("en");

/** "3 documents", "1 document" */
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** How long ago, or the date when that is longer than a week. */
export function when(ms, now = Date.now()) {
  const ago = now - ms;
  if (ago >= 7 * 86_400_000 || ago < -60_000) return day.format(ms);
  if (ago < 60_000) return "just now";
  const [unit, length] = STEPS.findLast(([, length]) => ago >= length);
  return relative.format(-Math.floor(ago / length), unit);
}

/** A `<time>` that says how long ago and shows the moment when pointed at. */
export const timeOf = (ms) =>
  el("time", { dateTime: new Date(ms).toISOString(), title: exact.format(ms) }, when(ms));

/** "0.3 s", "4 min", "2 h" */
export function span(ms) {
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return `${count(Math.round(ms / 3_600_000))} h`;
}

const REASONS = {
  backfill_pending: "vectors are still being made",
  model_changed: "vectors are being made anew for another model",
  deadline: "the vector came too late",
  sidecar_unavailable: "the embedder does not answer",
  sidecar_overloaded: "the embedder is busy",
  requested: "waits until you stop typing",
  identifier_query: "not needed for an identifier",
  no_candidates: "nothing to compare",
  circuit_open: "the embedder is left alone for a moment",
  no_sidecar: "this node has no embedder",
  tenant_off: "switched off for this memory",
};
/** What each part of a score says. */
export const COMPONENTS = {
  strict: "How well the words as typed fit, where all of them stand",
  relaxed: "How well the words fit, or what may stand for them",
  coverage: "Share of the question that stands in the document, rare words counting more",
  title: "The same share, in the title",
  density: "How much of the title the question is",
  phrase: "The whole question stands as one phrase",
  identifier: "The question names one of its identifiers",
  ref: "The question is its own reference",
  recency: "How lately it changed",
  semantic: "How near it is in meaning",
};

const STATES = { ok: "on", cold: "not ready", timeout: "late", skipped: "skipped", disabled: "off" };

/** A semantic outcome as a sentence: "Meaning: off, this node has no embedder". */
export function meaning({ state, reason, coverage }) {
  const name = STATES[state] ?? state;
  if (state === "ok") return `Meaning: ${name}, ${Math.round(100 * (coverage ?? 0))}% of candidates`;
  return `Meaning: ${name}, ${REASONS[reason] ?? reason}`;
}
