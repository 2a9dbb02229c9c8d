// The list of hits, and walking through it with keys.
import { byId, el, marked } from "./dom.js";
import { COMPONENTS, counted, timeOf } from "./words.js";

export class Results {
  #hits = [];
  #link;
  #open;

  /** `link(hit)` is a hit's address; `open(hit)` shows it. */
  constructor(link, open) {
    this.#link = link;
    this.#open = open;
    byId("hits").addEventListener("keydown", (event) => this.#key(event));
  }

  get count() {
    return this.#hits.length;
  }

  /** Show hits in place of others, or after them. */
  show(hits, { more = false } = {}) {
    const list = byId("hits");
    const held = list.contains(document.activeElement) ? this.#nameAt(this.#at()) : null;
    const first = more ? this.#hits.length : 0;
    this.#hits = more ? [...this.#hits, ...hits] : hits;
    const rows = hits.map((hit) => this.#row(hit));
    if (more) list.append(...rows);
    else list.replaceChildren(...rows);
    if (more) this.focus(first);
    else if (held !== null) this.focus(Math.max(0, this.#hits.findIndex((hit) => nameOf(hit) === held)));
  }

  /** Put the focus on a hit; nothing happens where there is none. */
  focus(index) {
    const link = byId("hits").children[index]?.querySelector("h2 a");
    link?.focus({ preventScroll: true });
    link?.closest(".hit").scrollIntoView({ block: "nearest" });
  }

  /** Open a hit as if it were clicked. */
  openAt(index) {
    if (index < this.#hits.length) this.#open(this.#hits[index]);
  }

  /** Mark which document is open, if it is here. */
  markOpen(document) {
    const name = document && nameOf(document);
    this.#hits.forEach((hit, index) => {
      byId("hits").children[index].classList.toggle("open", nameOf(hit) === name);
    });
  }

  /** Where a document stands in the list, -1 if nowhere. */
  indexOf(document) {
    return this.#hits.findIndex((hit) => nameOf(hit) === nameOf(document));
  }

  #at() {
    return [...byId("hits").children].findIndex((row) => row.contains(document.activeElement));
  }

  #nameAt(index) {
    return index < 0 ? null : nameOf(this.#hits[index]);
  }

  #key(event) {
    const at = this.#at();
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.#hits.length - 1;
    const goes = { ArrowDown: Math.min(at + 1, last), ArrowUp: at - 1, Home: 0, End: last };
    if (event.key in goes) {
      if (goes[event.key] < 0) byId("q").focus();
      else this.focus(goes[event.key]);
    } else if (event.key === "w") {
      byId("hits").children[at].querySelector(".why").click();
    } else {
      return;
    }
    event.preventDefault();
  }

  #row(hit) {
    const open = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab is the browser's
      event.preventDefault();
      this.#open(hit);
    };
    const title = hit.title || hit.ref;
    return el(
      "li",
      { class: "hit", "data-ref": hit.ref },
      el("h2", {}, el("a", { href: this.#link(hit), onclick: open }, title)),
      hit.snippet ? el("p", { class: "snippet" }, ...marked(hit.snippet, hit.marks)) : null,
      el(
        "div",
        { class: "facts" },
        el("span", { class: "kind" }, hit.kind),
        hit.title ? el("span", { class: "ref", title: hit.ref }, hit.ref) : null,
        timeOf(hit.updated_at),
        el("span", { class: "cost", title: "What the whole text costs a model, estimated" }, counted(hit.tokens, "token")),
        whyButton(hit),
      ),
    );
  }
}

const nameOf = ({ kind, ref }) => `${kind}\n${ref}`;

function whyButton(hit) {
  const toggle = ({ currentTarget }) => {
    const row = currentTarget.closest(".hit");
    const bars = row.querySelector(".bars");
    if (bars) bars.remove();
    else row.append(barsOf(hit));
    currentTarget.setAttribute("aria-expanded", String(!bars));
  };
  return el(
    "button",
    { type: "button", class: "why quiet", "aria-expanded": "false", onclick: toggle },
    "Why",
    el("span", { class: "unseen" }, ` is ${hit.title || hit.ref} here`),
  );
}

/** What a hit's score is made of, each part in [0, 1]. */
function barsOf(hit) {
  const bars = el("dl", { class: "bars" });
  const parts = Object.entries(hit.components).sort(([, a], [, b]) => b - a);
  for (const [name, value] of parts) {
    const fill = el("i");
    fill.style.setProperty("--share", String(Math.min(1, Math.max(0, value))));
    bars.append(
      el("dt", { title: COMPONENTS[name] }, name),
      el("dd", { class: "bar-track", "aria-hidden": "true" }, fill),
      el("dd", { class: "number" }, value.toFixed(2)),
    );
  }
  bars.append(
    el("dt", {}, "score"),
    el("dd", { class: "sum" }, "their weighted sum ", el("b", { class: "number" }, hit.score.toFixed(2))),
  );
  return bars;
}
