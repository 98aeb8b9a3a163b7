/* What a slider promises, in words that the page brings along; and that a step is at work. */
for (const slider of document.querySelectorAll("input[data-texts]")) {
  const texts = JSON.parse(slider.dataset.texts);
  const show = () => {
    const place = Math.round((slider.value - slider.min) / slider.step);
    slider.nextElementSibling.textContent = texts[place];
  };
  slider.addEventListener("input", show);
  show();
}
for (const form of document.querySelectorAll("form[data-busy]")) {
  form.addEventListener("submit", () => {
    const button = form.querySelector("button");
    button.disabled = true;
    button.textContent = form.dataset.busy;
  });
}
/* A page that the browser kept is as it was before it was sent. */
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
