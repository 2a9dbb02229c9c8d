// Before anything is painted: the theme that was chosen here, if one was.
(() => {
  try {
    const chosen = localStorage.getItem("memlane-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage is off: the system's theme it is.
  }
})();
