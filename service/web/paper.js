// A whole document, and what stood before and after it.
import { byId, el } from "./dom.js";
import { count, timeOf } from "./words.js";

const NEIGHBOURS = 5;
const MOST_MARKS = 2_000;
const MARKED_CHARS = 300_000;
const PARTS = [["summary", "Summary", "text"], ["note", "Note", "text"], ["meta", "Meta", "meta"]];

export class Paper {
  #line;
  #link;
  #open;
  #close;
  #calling = null;
  #within = "kind";
  #terms = () => [];

  /**
   * `link(name)` is a document's address; `open(name)` shows it; `close()` puts it away; `terms()`
   * are the words to highlight.
   */
  constructor(line, { link, open, close, terms }) {
    this.#terms = terms;
    this.#line = line;
    this.#link = link;
    this.#open = open;
    this.#close = close;
  }

  get shown() {
    return !byId("paper").hidden;
  }

  /** Put the document away. */
  hide() {
    this.#calling?.abort();
    byId("paper").hidden = true;
    byId("paper").replaceChildren();
  }

  /** Show a document; throws what the line throws, less what is said here. */
  async show({ kind, ref }) {
    this.#calling?.abort();
    const calling = new AbortController();
    this.#calling = calling;
    const call = (path, body) => this.#line.call("POST", path, { body, signal: calling.signal });
    try {
      const asked = [
        call("/v1/documents:get", { refs: [{ kind, ref }] }),
        call("/v1/timeline", { kind, ref, before: NEIGHBOURS, after: NEIGHBOURS, within: this.#within }),
      ];
      const [got, around] = await Promise.allSettled(asked);
      if (calling.signal.aborted) return;
      if (got.status === "rejected") throw got.reason;
      this.#draw({ kind, ref }, got.value, around.status === "fulfilled" ? around.value : null);
    } catch (error) {
      if (!calling.signal.aborted) throw error;
    }
  }

  #draw(name, got, around) {
    const [found] = got.documents;
    const paper = byId("paper");
    const body = found ? this.#sheet(found, got.cut, around) : [gone(name)];
    paper.replaceChildren(this.#top(name, found), el("div", { class: "sheet" }, ...body));
    paper.hidden = false;
    highlight(paper.querySelector(".document"), this.#terms());
    paper.scrollTop = 0;
  }

  #top(name, found) {
    const copy = async ({ currentTarget }) => {
      try {
        await navigator.clipboard.writeText(textOf(found));
        currentTarget.textContent = "Copied";
      } catch {
        currentTarget.textContent = "Not allowed";
      }
    };
    return el(
      "div",
      { class: "paper-top" },
      el(
        "div",
        { class: "facts" },
        el("span", { class: "kind" }, name.kind),
        el("span", {}, name.ref),
        found ? timeOf(found.updated_at) : null,
      ),
      found && navigator.clipboard ? el("button", { type: "button", class: "quiet", onclick: copy }, "Copy") : null,
      el("button", { type: "button", class: "quiet", id: "close", onclick: () => this.#close() }, "Close"),
    );
  }

  #sheet(found, cut, around) {
    const parts = PARTS.filter(([field]) => found[field]).flatMap(([field, name, look]) => [
      el("h3", {}, name),
      el("p", { class: look }, found[field]),
    ]);
    const ids = found.identifiers.length
      ? [
          el("h3", {}, "Identifiers"),
          el("p", { class: "ids" }, ...found.identifiers.map((each) => el("code", {}, each))),
        ]
      : [];
    const cuts = cut.map(({ field, chars, of_chars }) =>
      el("p", { class: "cut" }, `${field}: ${count(chars)} of ${count(of_chars)} characters are shown.`),
    );
    const document = el(
      "article",
      { class: "document" },
      el("h2", { id: "paper-title" }, found.title || found.ref),
      ...parts,
      ...ids,
      ...cuts,
    );
    return [document, ...(around ? [this.#timeline(found, around)] : [])];
  }

  #timeline(name, { before, here, after }) {
    const widen = () => {
      this.#within = this.#within === "kind" ? "all" : "kind";
      this.#open(name, { again: true });
    };
    const wide = String(this.#within === "all");
    const moments = [
      ...after.toReversed().map((each) => this.#moment(each)),
      el("li", { class: "moment here", "aria-current": "true" }, timeOf(here.updated_at), here.title || here.ref),
      ...before.toReversed().map((each) => this.#moment(each)),
    ];
    return el(
      "nav",
      { class: "timeline", "aria-label": "Timeline" },
      el(
        "div",
        { class: "timeline-top" },
        el("h3", {}, "Timeline"),
        el("button", { type: "button", id: "within", "aria-pressed": wide, onclick: widen }, "All kinds"),
      ),
      el("ol", { class: "moments" }, ...moments),
    );
  }

  #moment(each) {
    const open = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.#open(each);
    };
    return el(
      "li",
      { class: "moment" },
      timeOf(each.updated_at),
      el("a", { href: this.#link(each), onclick: open }, each.title || each.ref),
    );
  }
}

/** Have the browser paint words where they stand; the text itself stays as it is. */
function highlight(root, terms) {
  if (!globalThis.Highlight || !CSS.highlights) return; // nice to have
  CSS.highlights.delete("found");
  const wanted = terms.filter(Boolean).sort((a, b) => b.length - a.length);
  if (!wanted.length) return;
  const escaped = wanted.map((term) => term.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  const pattern = new RegExp(escaped.join("|"), "giu");
  const found = new Highlight();
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode() && found.size < MOST_MARKS) {
    const text = texts.currentNode;
    for (const match of text.data.slice(0, MARKED_CHARS).matchAll(pattern)) {
      const range = new Range();
      range.setStart(text, match.index);
      range.setEnd(text, match.index + match[0].length);
      found.add(range);
      if (found.size >= MOST_MARKS) break;
    }
  }
  CSS.highlights.set("found", found);
}

function gone({ ref }) {
  return el(
    "div",
    { class: "document" },
    el("h2", { id: "paper-title" }, "This document is gone"),
    el("p", {}, `${ref} was deleted, or this node does not know it yet.`),
  );
}

const textOf = (found) =>
  ["title", "summary", "note", "meta"].map((field) => found[field]).filter(Boolean).join("\n\n");
