// Asking while somebody types: the newest question wins, older ones are called off.

const PAUSE_MS = 25; // a burst of keys (auto-repeat, an input method) is one question
const SETTLED_MS = 250; // no key for so long: worth waiting for the semantic lane
const PAGE_HITS = 20;

/**
 * One question at a time over a line. While keys come, questions do not wait for the semantic lane;
 * once they stop, the last one is asked again with it, unless this node has none.
 */
export class Search {
  #line;
  #show;
  #refuse;
  #timer = null;
  #calling = null;
  #hasMeaning = true;

  /** `show(answer, wanted, more)` takes what was found; `refuse(error)` what was not. */
  constructor(line, show, refuse) {
    this.#line = line;
    this.#show = show;
    this.#refuse = refuse;
  }

  /** Ask soon: {q, kinds, updated_after, updated_before}. */
  soon(wanted) {
    this.stop();
    this.#timer = setTimeout(() => this.#typed(wanted), PAUSE_MS);
  }

  /** Ask at once, semantic lane and all. */
  now(wanted) {
    this.stop();
    return this.#ask(wanted, {});
  }

  /** The page after `cursor` of what was asked. */
  more(wanted, cursor) {
    this.stop();
    return this.#ask(wanted, { cursor }, true);
  }

  /** Call off what is asked or about to be. */
  stop() {
    clearTimeout(this.#timer);
    this.#calling?.abort();
    this.#calling = null;
  }

  async #typed(wanted) {
    if (!this.#hasMeaning) return this.#ask(wanted, {});
    await this.#ask(wanted, { semantic: { deadline_ms: 0 } });
    if (this.#hasMeaning && this.#calling === null) {
      this.#timer = setTimeout(() => this.#ask(wanted, {}), SETTLED_MS);
    }
  }

  async #ask(wanted, extra, more = false) {
    const calling = new AbortController();
    this.#calling = calling;
    const body = { ...wanted, limit: PAGE_HITS, ...extra };
    try {
      const answer = await this.#line.call("POST", "/v1/search", { body, signal: calling.signal });
      if (calling.signal.aborted) return;
      this.#calling = null;
      this.#hasMeaning = answer.semantic.state !== "disabled";
      this.#show(answer, wanted, more);
    } catch (error) {
      if (calling.signal.aborted) return;
      this.#calling = null;
      this.#refuse(error);
    }
  }
}
