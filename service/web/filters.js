// Filters by kind and time.
import { byId, el } from "./dom.js";
import { count } from "./words.js";

const DAY_MS = 86_400_000;

export class Filters {
  #kinds = new Set();
  #counts = {};
  #changed;

  /** `changed()` is called when somebody changes one. */
  constructor(changed) {
    this.#changed = changed;
    for (const id of ["when", "from", "to"]) {
      byId(id).addEventListener("change", () => {
        this.#showRange();
        changed();
      });
    }
  }

  /** Take the filters of an address. */
  set({ kinds, when, from, to }) {
    this.#kinds = new Set(kinds);
    byId("when").value = when;
    byId("from").value = from;
    byId("to").value = to;
    this.#showRange();
    this.#draw();
  }

  /** The filters for an address. */
  state() {
    const value = (id) => byId(id).value;
    return { kinds: [...this.#kinds], when: value("when"), from: value("from"), to: value("to") };
  }

  /** The filters for a search. */
  fields() {
    const { kinds, when, from, to } = this.state();
    const fields = kinds.length ? { kinds } : {};
    if (when === "range") {
      if (from) fields.updated_after = startOf(from);
      if (to) fields.updated_before = Math.max(startOf(to) + DAY_MS - 1, fields.updated_after ?? 0);
    } else if (when) {
      fields.updated_after = Date.now() - Number(when) * DAY_MS;
    }
    return fields;
  }

  /** Whether any filter is on. */
  get any() {
    return this.#kinds.size > 0 || byId("when").value !== "";
  }

  clear() {
    this.set({ kinds: [], when: "", from: "", to: "" });
    this.#changed();
  }

  /** Which kinds there are: {kind: documents}. */
  offer(counts) {
    if (JSON.stringify(counts) === JSON.stringify(this.#counts)) return;
    this.#counts = counts;
    this.#draw();
  }

  #draw() {
    const known = Object.entries(this.#counts).sort(([, a], [, b]) => b - a);
    const unknown = [...this.#kinds].filter((kind) => !(kind in this.#counts));
    const held = document.activeElement?.dataset?.kind;
    byId("kinds").replaceChildren(
      ...known.map(([kind, documents]) => this.#chip(kind, documents)),
      ...unknown.map((kind) => this.#chip(kind, 0)),
    );
    if (held) byId("kinds").querySelector(`[data-kind="${CSS.escape(held)}"]`)?.focus();
  }

  #chip(kind, documents) {
    const toggle = () => {
      if (!this.#kinds.delete(kind)) this.#kinds.add(kind);
      this.#draw();
      this.#changed();
    };
    return el(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-pressed": String(this.#kinds.has(kind)),
        "data-kind": kind,
        onclick: toggle,
      },
      kind,
      el("span", {}, count(documents)),
    );
  }

  #showRange() {
    byId("range").hidden = byId("when").value !== "range";
  }
}

function startOf(date) {
  const [year, month, day] = date.split("-").map(Number);
  return Math.max(0, new Date(year, month - 1, day).getTime());
}
