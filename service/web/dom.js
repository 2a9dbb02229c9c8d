// Making elements. Text is always text: nothing here turns a string into markup.

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/**
 * An element with properties and children.
 * `class`, `data-*`, `aria-*`, `role` and the like become attributes; `on*` listeners; the rest
 * properties. Children that are null or false are left out.
 */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class" || name === "role" || name.includes("-")) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== false));
  return made;
}

/** A text with parts of it marked; `marks` are [begin, end) in code points, as the API counts. */
export function marked(text, marks) {
  const points = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [begin, end] of marks) {
    if (begin < at || end > points.length) continue;
    if (begin > at) parts.push(points.slice(at, begin).join(""));
    parts.push(el("mark", {}, points.slice(begin, end).join("")));
    at = end;
  }
  if (at < points.length) parts.push(points.slice(at).join(""));
  return parts;
}
