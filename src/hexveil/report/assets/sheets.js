/* Bokeh styles what it draws by style elements whose text changes; the page's policy allows none.
   In their place it gets elements that keep their text in a style sheet adopted by their root:
   the same rules in the same order, made through the DOM. */
(function () {
"use strict";

class Sheet extends HTMLElement {
  #sheet = new CSSStyleSheet();
  #text = "";
  #root = null;

  constructor() {
    super();
    this.style.display = "none";
  }

  get textContent() { return this.#text; }

  set textContent(text) {
    this.#text = text;
    this.#sheet.replaceSync(text);
  }

  get sheet() { return this.#sheet; }

  connectedCallback() {
    this.#root = this.getRootNode();
    adopt(this.#root);
  }

  disconnectedCallback() {
    adopt(this.#root);
  }
}

function adopt(root) {
  root.adoptedStyleSheets = [...root.querySelectorAll("page-sheet")].map((one) => one.sheet);
}

customElements.define("page-sheet", Sheet);
const create = document.createElement.bind(document);
document.createElement = (name, ...options) => (name === "style" ? new Sheet() : create(name, ...options));
})();
