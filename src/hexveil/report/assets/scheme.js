/* Light or dark: the reader's choice, which the root element has with what follows from it. */
const root = document.documentElement;
const darkScreen = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");
const mode = () => (root.dataset.scheme === "dark" && !paper.matches ? "dark" : "light");

function applyScheme(choice) {
  const system = darkScreen.matches ? "dark" : "light";
  Object.assign(root.dataset, { choice, scheme: choice === "system" ? system : choice });
  change({ scheme: root.dataset.scheme });
}

function startScheme() {
  byId("scheme").hidden = false;
  for (const button of document.getElementsByName("scheme")) {
    button.checked = button.value === root.dataset.choice;
    button.addEventListener("change", () => {
      try { localStorage.setItem("hexveil-scheme", button.value); } catch { /* It lasts while the page is open. */ }
      applyScheme(button.value);
    });
  }
  darkScreen.addEventListener("change", () => applyScheme(root.dataset.choice));
}
