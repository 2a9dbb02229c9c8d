// The line to the server: calls that outlast a server which is gone, busy, or asks for patience.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const PATIENCE_MS = 15_000;

/** The server refused; `status` and the problem's own words. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.hint = problem.hint || "";
  }
}

class Patience extends Error {
  constructor(kind, waitMs = null) {
    super(kind);
    this.kind = kind;
    this.waitMs = waitMs;
  }
}

/**
 * Calls to this page's own server. Events: `trouble` with {kind, until} when a call must wait to be
 * repeated (kinds: "gone", "busy", "limited"), `well` when one came through after that.
 */
export class Line extends EventTarget {
  #troubled = false;
  #wakers = new Set();

  /** The answer's JSON, null for none. Repeats until it comes through, is refused, or is aborted. */
  async call(method, path, { body, signal } = {}) {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const answer = await once(method, path, body, signal);
        this.#well();
        return answer;
      } catch (error) {
        if (!(error instanceof Patience)) {
          if (error instanceof Refused) this.#well();
          throw error;
        }
        const waitMs = error.waitMs ?? Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
        this.#ill(error.kind, waitMs);
        await this.#sleep(waitMs, signal);
      }
    }
  }

  /** Try again at once whatever waits. */
  wake() {
    for (const waker of [...this.#wakers]) waker();
  }

  #well() {
    if (!this.#troubled) return;
    this.#troubled = false;
    this.dispatchEvent(new CustomEvent("well"));
  }

  #ill(kind, waitMs) {
    this.#troubled = true;
    this.dispatchEvent(new CustomEvent("trouble", { detail: { kind, until: Date.now() + waitMs } }));
  }

  #sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      const done = () => {
        clearTimeout(timer);
        this.#wakers.delete(done);
        signal?.removeEventListener("abort", done);
        if (signal?.aborted) reject(signal.reason);
        else resolve();
      };
      const timer = setTimeout(done, ms);
      this.#wakers.add(done);
      signal?.addEventListener("abort", done);
    });
  }
}

async function once(method, path, body, signal) {
  const headers = { "Memlane-Page": "1", Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const limits = [AbortSignal.timeout(PATIENCE_MS), ...(signal ? [signal] : [])];
  let answer;
  let value;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.any(limits),
      credentials: "same-origin",
      cache: "no-store",
    });
    const text = await answer.text();
    value = text ? JSON.parse(text) : null;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (error instanceof SyntaxError && answer?.status < 500) throw new Refused(answer.status, {});
    throw new Patience("gone");
  }
  if (answer.ok) return value;
  const given = Number(answer.headers.get("Retry-After"));
  const waitMs = given > 0 ? Math.min(60, given) * 1_000 : null;
  if (answer.status === 429) throw new Patience("limited", waitMs);
  if (answer.status === 503) throw new Patience("busy", waitMs);
  if (answer.status === 502 || answer.status === 504) throw new Patience("gone");
  throw new Refused(answer.status, value ?? {});
}

const SAYINGS = {
  gone: "The server cannot be reached.",
  busy: "The server is busy.",
  limited: "Too many requests for now.",
};

/** Show a line's troubles in the bar at the top of the page. */
export function showTroubles(line, bar, text, countdown, button) {
  let until = 0;
  let clock = null;
  const tick = () => {
    const left = Math.max(0, Math.ceil((until - Date.now()) / 1_000));
    countdown.textContent = left ? `Trying again in ${left} s.` : "Trying again …";
  };
  line.addEventListener("trouble", ({ detail }) => {
    until = detail.until;
    const saying = `${SAYINGS[detail.kind]} This page keeps trying.`;
    if (text.textContent !== saying) text.textContent = saying; // said aloud once, not every time
    bar.hidden = false;
    clock ??= setInterval(tick, 250);
    tick();
  });
  line.addEventListener("well", () => {
    clearInterval(clock);
    clock = null;
    bar.hidden = true;
    text.textContent = "";
  });
  button.addEventListener("click", () => line.wake());
  addEventListener("online", () => line.wake());
}
