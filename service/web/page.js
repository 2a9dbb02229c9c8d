// The search page: puts the parts together and moves between them.
import * as address from "./address.js";
import { byId, el } from "./dom.js";
import { Filters } from "./filters.js";
import { Line, showTroubles } from "./line.js";
import { Paper } from "./paper.js";
import { Results } from "./results.js";
import { Search } from "./search.js";
import { Session, sentence } from "./session.js";
import { Status } from "./status.js";
import { counted } from "./words.js";

const LOOK_MS = 15_000; // how often the index is looked at while nothing else is
const EXAMPLES = [
  ['"rate limit"', "the words as a phrase"],
  ["gateway -timeout", "without a word"],
  ["kind:task after:2026-01-01", "of a kind, since a day"],
];

const line = new Line();
const status = new Status();
const results = new Results(
  (hit) => address.of({ ...state(), ...hit }),
  (hit) => open(hit),
);
const filters = new Filters(() => {
  note();
  ask();
});
const paper = new Paper(line, {
  link: (name) => address.of({ ...state(), ...name }),
  open: (name, { again = false } = {}) => (again ? read(name) : open(name)),
  close: () => close(),
  terms: () => terms,
});
const search = new Search(line, show, refuse);
const session = new Session(line, enter);
const question = byId("q");
let shownFor = null; // what the hits on the page answer
let cursor = null;
let terms = []; // the words that were looked for
let opened = null;
let entered = false;

// --- what is asked

/** All that the address holds. */
function state() {
  return { q: question.value, ...filters.state(), kind: opened?.kind, ref: opened?.ref };
}

/** Keep the address true to what is shown, without a step in the history. */
const note = () => history.replaceState(history.state, "", address.of(state()));

const wanted = () => ({ q: question.value, ...filters.fields() });

function ask({ soon = false } = {}) {
  if (!question.value.trim()) {
    search.stop();
    clear();
  } else if (soon) {
    search.soon(wanted());
  } else {
    search.now(wanted());
  }
}

function show(answer, asked, more) {
  shownFor = asked;
  cursor = answer.cursor;
  terms = [...(answer.read_as.terms ?? []), ...(answer.read_as.phrases ?? [])];
  results.show(answer.hits, { more });
  results.markOpen(opened);
  status.answered(answer, results.count);
  byId("hits").dataset.answers = asked.q;
  byId("more").hidden = cursor === null;
  byId("empty").replaceChildren(...(results.count ? [] : nothing(asked.q)));
  if (!more) byId("said").textContent = counted(results.count, "result");
}

function refuse(error) {
  if (error.status === 401 || error.status === 403) {
    forget();
    session.refuse(sentence(error));
    return;
  }
  if (error.status === undefined) throw error; // a mistake of ours: the console shall have it
  results.show([]);
  byId("more").hidden = true;
  byId("empty").replaceChildren(
    el("h2", {}, "This search was refused"),
    el("p", { role: "alert" }, sentence(error)),
  );
}

/** Leave nothing of one memory behind for whoever gives the next key. */
function forget() {
  search.stop();
  paper.hide();
  document.querySelector(".columns").classList.remove("reading");
  clear();
  filters.offer({});
  status.forget();
}

function clear() {
  shownFor = null;
  cursor = null;
  terms = [];
  results.show([]);
  status.idle();
  byId("hits").dataset.answers = "";
  byId("more").hidden = true;
  byId("empty").replaceChildren(...welcome());
}

function welcome() {
  const example = ([text, words]) =>
    el("li", {}, el("button", { type: "button", onclick: () => put(text) }, text), words);
  return [
    el("h2", {}, "Ask in any words, in any language"),
    el("p", {}, "Results come while you type. Some things that help:"),
    el("ul", {}, ...EXAMPLES.map(example)),
  ];
}

function nothing(q) {
  const drop = el("button", { type: "button", onclick: () => filters.clear() }, "Search without filters");
  return [
    el("h2", {}, "Nothing found"),
    el("p", {}, `There is nothing for “${q}”${filters.any ? " with these filters" : ""}.`),
    ...(filters.any ? [drop] : [el("p", {}, "Try fewer or other words.")]),
  ];
}

function put(text) {
  question.value = text;
  question.focus();
  note();
  ask();
}

// --- the open document

function open(name) {
  const behind = address.of({ ...state(), kind: null, ref: null });
  const walking = opened !== null; // one step back, however far one walks from there
  opened = { kind: name.kind, ref: name.ref };
  if (walking) note();
  else history.pushState({ behind }, "", address.of(state()));
  read(opened);
}

async function read(name) {
  try {
    await paper.show(name);
  } catch (error) {
    refuse(error);
    return;
  }
  if (!paper.shown) return;
  document.querySelector(".columns").classList.add("reading");
  results.markOpen(name);
  byId("paper").focus({ preventScroll: true });
}

function close() {
  const left = opened;
  opened = null;
  if (history.state?.behind === address.of(state())) {
    opened = left;
    history.back(); // `popstate` does the rest
  } else {
    history.replaceState(null, "", address.of(state()));
    putAway(left);
  }
}

function putAway(left) {
  paper.hide();
  document.querySelector(".columns").classList.remove("reading");
  results.markOpen(null);
  const index = left ? results.indexOf(left) : -1;
  if (index >= 0) results.focus(index);
  else question.focus();
}

// --- moving about

function follow() {
  const given = address.read();
  const left = opened;
  opened = given.kind && given.ref ? { kind: given.kind, ref: given.ref } : null;
  const moved = given.q !== question.value || address.of(given) !== address.of(state());
  question.value = given.q;
  filters.set(given);
  if (moved || shownFor === null) ask();
  if (opened) read(opened);
  else if (paper.shown) putAway(left);
}

function enter() {
  entered = true;
  follow();
  if (!opened) question.focus();
  look();
}

/** How fresh the index is and which kinds it holds. */
async function look() {
  try {
    const found = await line.call("GET", "/v1/index");
    filters.offer(found.documents_by_kind ?? {});
    status.index(found.index);
  } catch (error) {
    refuse(error);
  }
}

question.addEventListener("input", (event) => {
  if (event.isComposing) return; // half a word of an input method
  note();
  ask({ soon: true });
});
question.addEventListener("compositionend", () => {
  note();
  ask({ soon: true });
});
question.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "ArrowDown" && results.count) results.focus(0);
  else if (event.key === "Escape" && paper.shown) close();
  else if (event.key === "Escape") {
    question.value = "";
    note();
    ask();
  } else return;
  event.preventDefault();
  event.stopPropagation();
});
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const answered = shownFor !== null && shownFor.q === question.value;
  if (answered) results.openAt(0);
  else ask();
});
byId("more").addEventListener("click", () => search.more(shownFor, cursor));
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme ?? (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("memlane-theme", root.dataset.theme);
  } catch {
    // Storage is off: it lasts until the page is left.
  }
});
addEventListener("keydown", (event) => {
  if (!entered || byId("desk").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing) {
    question.focus();
    question.select();
  } else if (event.key === "Escape" && paper.shown) {
    close();
  } else if (event.key === "Escape" && !typing) {
    question.focus();
  } else {
    return;
  }
  event.preventDefault();
});
addEventListener("pageshow", (event) => event.persisted && location.reload()); // signed out since?
addEventListener("popstate", () => entered && follow());
setInterval(() => {
  if (entered && !byId("desk").hidden && document.visibilityState === "visible") look();
}, LOOK_MS);

showTroubles(line, byId("trouble"), byId("trouble-text"), byId("trouble-count"), byId("trouble-now"));
session.begin();
