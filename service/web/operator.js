// Looks again every half minute while somebody wants it and nobody is typing.

const EVERY_MS = 30_000;
const again = document.getElementById("again");

if (again) {
  again.checked = localStorage.getItem("operator-again") === "yes";
  again.addEventListener("change", () => {
    localStorage.setItem("operator-again", again.checked ? "yes" : "no");
  });
  setInterval(() => {
    const busy = document.activeElement?.matches("input:not([type=checkbox]), select");
    if (again.checked && !busy && document.visibilityState === "visible") location.reload();
  }, EVERY_MS);
}
