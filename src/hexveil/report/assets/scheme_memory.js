/* Light or dark before anything is drawn, so that the page does not flash: as the reader chose
   earlier, else as the system has it. Browsers may refuse to remember. */
(() => {
  let choice = null;
  try { choice = localStorage.getItem("hexveil-scheme"); } catch { /* As in a sandboxed frame. */ }
  if (choice !== "light" && choice !== "dark") choice = "system";
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  Object.assign(document.documentElement.dataset, { choice, scheme: choice === "system" ? system : choice });
})();
