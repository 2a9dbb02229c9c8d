// The key: given once, then a cookie that no script reads.
import { byId } from "./dom.js";
import { Refused } from "./line.js";

export class Session {
  #line;
  #entered;

  /** `entered(tenant)` is called when somebody is let in. */
  constructor(line, entered) {
    this.#line = line;
    this.#entered = entered;
    byId("gate-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#give();
    });
    byId("leave").addEventListener("click", () => this.leave());
  }

  /** Let in who was let in before. */
  async begin() {
    const { tenant, reason } = await this.#line.call("GET", "/session");
    if (tenant === null) this.refuse(reason === null ? "" : sentence({ message: reason }));
    else this.#enter(tenant);
  }

  /** Ask for a key, and say why. */
  refuse(reason) {
    byId("desk").hidden = true;
    byId("gate").hidden = false;
    byId("gate-error").textContent = reason;
    byId("key").focus();
  }

  /** Sign out. */
  async leave() {
    await this.#line.call("DELETE", "/session");
    location.assign("/"); // nothing of what was shown stays behind
  }

  async #give() {
    const key = byId("key");
    const button = byId("gate-form").querySelector("button");
    button.disabled = true;
    byId("gate-error").textContent = "";
    try {
      const { tenant } = await this.#line.call("POST", "/session", { body: { key: key.value.trim() } });
      key.value = "";
      key.removeAttribute("aria-invalid");
      this.#enter(tenant);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      key.setAttribute("aria-invalid", "true");
      byId("gate-error").textContent = sentence(error);
      key.select();
    } finally {
      button.disabled = false;
    }
  }

  #enter(tenant) {
    byId("gate").hidden = true;
    byId("desk").hidden = false;
    byId("tenant").textContent = tenant;
    this.#entered();
  }
}

/** A refusal as a person reads it: the detail, then what to do. */
export function sentence(error) {
  const text = error.message.charAt(0).toUpperCase() + error.message.slice(1);
  const detail = /[.!?]$/.test(text) ? text : `${text}.`;
  return (error.hint ? `${detail} ${error.hint}` : detail).replaceAll("`", "");
}
