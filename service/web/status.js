// The line above the results: how many, how fast, what the semantic lane did, how fresh it all is.
import { byId, el } from "./dom.js";
import { count, counted, meaning, span } from "./words.js";

const OLD_MS = 10_000; // beyond this the service itself calls a replica late

export class Status {
  #answer = null;
  #index = null;

  /** Show an answer's figures, beside `hits` hits so far. */
  answered(answer, hits) {
    this.#answer = { ...answer, shown: hits };
    this.index(answer.index);
  }

  /** Only the index: nothing is asked now. */
  idle() {
    this.#answer = null;
    this.#draw();
  }

  /** Nothing is known any more. */
  forget() {
    this.#index = null;
    this.idle();
  }

  /** A newer look at the index. */
  index(index) {
    this.#index = index;
    this.#draw();
  }

  #draw() {
    byId("status").replaceChildren(...this.#found(), ...this.#fresh());
  }

  #found() {
    if (this.#answer === null) return [];
    const { shown, cursor, took_ms, semantic, read_as } = this.#answer;
    const many = cursor ? `${shown}+ results` : counted(shown, "result");
    const dropped = read_as?.dropped ?? [];
    const nowhere = read_as?.phrases_nowhere ?? [];
    const looks = { ok: "ok", cold: "late", timeout: "late" }[semantic.state] ?? "off";
    return [
      el("span", {}, `${many} in ${Math.max(1, Math.round(took_ms.total))} ms`),
      el("span", { class: `badge ${looks}`, id: "semantic", "data-state": semantic.state }, meaning(semantic)),
      dropped.length ? el("span", {}, `Left out: ${dropped.join(", ")}`) : null,
      nowhere.length ? el("span", {}, `Nowhere as a phrase: ${nowhere.join(", ")}`) : null,
    ].filter((each) => each !== null);
  }

  #fresh() {
    if (this.#index === null) return [];
    const { version, age_ms, docs } = this.#index;
    return [
      el(
        "span",
        { id: "fresh", class: age_ms > OLD_MS ? "old" : "", title: `As of ${this.#index.as_of}` },
        `${counted(docs, "document")}, version ${count(version)}, ${span(age_ms)} old`,
      ),
    ];
  }
}
