// What the page shows, in the fragment of its address: a link to share, and never sent to a server.

/** {q, kinds, when, from, to, kind, ref} of the address; `kind` and `ref` name the open document. */
export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  return {
    q: given.get("q") ?? "",
    kinds: given.getAll("only"),
    when: given.get("when") ?? "",
    from: given.get("from") ?? "",
    to: given.get("to") ?? "",
    kind: given.get("kind"),
    ref: given.get("ref"),
  };
}

/** The address of a state. */
export function of({ q, kinds, when, from, to, kind, ref }) {
  const made = new URLSearchParams();
  if (q) made.set("q", q);
  for (const each of kinds) made.append("only", each);
  if (when) made.set("when", when);
  if (when === "range" && from) made.set("from", from);
  if (when === "range" && to) made.set("to", to);
  if (kind && ref) {
    made.set("kind", kind);
    made.set("ref", ref);
  }
  const text = made.toString();
  return text ? `#${text}` : "#";
}
