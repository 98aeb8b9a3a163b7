/* What the theme's script adds to a page after it has loaded, made usable by keyboard and by screen
   readers: navigations get names of their own, boxes that scroll can be focused. */
const name = () => {
  document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((nav, place) => {
    const code = nav.closest(".highlight, pre")?.querySelector("code")?.textContent ?? "";
    nav.setAttribute("aria-label", `Code ${place + 1}: ${code.trim().slice(0, 40)}`);
  });
  document
    .querySelectorAll(".md-typeset__scrollwrap, .md-typeset .output, .md-typeset .formula")
    .forEach(box => {
      const scrolls = box.scrollWidth > box.clientWidth;
      if (scrolls !== box.hasAttribute("tabindex")) box.toggleAttribute("tabindex", scrolls);
      if (scrolls) box.tabIndex = 0;
    });
};
// Two headings of one name would make two navigations of one name.
const known = new Map();
document.querySelectorAll("nav.md-nav[aria-label]").forEach(nav => {
  const label = nav.getAttribute("aria-label");
  known.set(label, (known.get(label) ?? 0) + 1);
  if (known.get(label) > 1) nav.setAttribute("aria-label", `${label}, ${known.get(label)}`);
});
new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", name);
name();
