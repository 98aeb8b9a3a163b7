/* What a reader takes along: a picture of the map as it is shown, and the element that puts the page
   into another one. */
const MARGIN = 16;

/* Words in lines that fit a width, in the font that a pen has. */
function wrapped(context, text, width) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const longer = `${lines[lines.length - 1]} ${word}`.trim();
    if (context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.filter(Boolean);
}

/* The sentences around the picture: what is shown above the map, how to read it below. */
function pictureWords() {
  const comparing = state.against !== null;
  const slot = data.slots.length ? [data.slots[state.slot], ...(comparing ? [label("difference", { slot: "", against: data.slots[state.against] }).trim()] : [])].join(" ") : "";
  const legend = byId(comparing ? "legend-difference" : "legend-values");
  const above = [[[document.querySelector("h1").textContent], "650 20px"], [[legend.querySelector("h3").textContent, slot].filter(Boolean), "500 14px"], [[byId("period").textContent], "13px"]];
  const grades = [...legend.querySelectorAll("li .swatch")].map((swatch) => label(`picture ${swatch.className.split(" ").pop()}`)).filter(Boolean).join("; ");
  const credit = document.querySelector(".credit")?.textContent.trim().replace(/\s+/g, " ") ?? "";
  return { above: above.map(([words, font]) => [words.join(" \u00b7 "), font]), below: [[grades.charAt(0).toUpperCase() + grades.slice(1), "12px"], [label("picture_noise"), "12px"], [credit, "11px"]], comparing };
}

/* Draws the map as it is shown with its title, colours and sources. */
function drawPicture() {
  const [width, height] = size();
  const ratio = canvas.width / width;
  const { above, below, comparing } = pictureWords();
  const made = document.createElement("canvas");
  const context = made.getContext("2d");
  const inLines = (parts) => parts.flatMap(([text, font]) => {
    context.font = `${font} ${FONT}`;
    return wrapped(context, text, width - 2 * MARGIN).map((line) => [line, font]);
  });
  const [head, foot] = [inLines(above), inLines(below)];
  const tall = (lines) => lines.reduce((sum, [, font]) => sum + 1.5 * parseInt(font.match(/\d+(?=px)/)[0], 10), 0);
  const top = tall(head) + 2 * MARGIN;
  made.width = Math.round(width * ratio);
  made.height = Math.round((top + height + tall(foot) + 50 + 2 * MARGIN) * ratio);
  context.scale(ratio, ratio);
  const style = getComputedStyle(document.body);
  context.fillStyle = style.backgroundColor;
  context.fillRect(0, 0, width, made.height / ratio);
  context.fillStyle = style.color;
  context.textBaseline = "top";
  const write = (lines, from) => lines.reduce((y, [text, font]) => {
    context.font = `${font} ${FONT}`;
    context.fillText(text, MARGIN, y);
    return y + 1.5 * parseInt(font.match(/\d+(?=px)/)[0], 10);
  }, from);
  write(head, MARGIN);
  context.drawImage(canvas, 0, top, width, height);
  const plain = byId("colour-bar").hidden;
  const colours = plain ? [] : data.palette[mode()][comparing || data.value.signed ? "difference" : "good"];
  const bar = Math.min(360, width - 2 * MARGIN);
  colours.forEach((colour, at) => {
    context.fillStyle = colour;
    context.fillRect(MARGIN + bar * at / colours.length, top + height + MARGIN, bar / colours.length + 0.5, 12);
  });
  context.fillStyle = style.color;
  context.font = `12px ${FONT}`;
  const ends = plain ? [] : comparing ? [[0, byId("difference-low").textContent], [0.5, "0"], [1, byId("difference-high").textContent]]
    : [...document.querySelectorAll(".marks span")].map((mark) => [parseFloat(getComputedStyle(mark).left) / mark.parentElement.clientWidth, mark.textContent]);
  for (const [at, text] of ends) {
    context.textAlign = at < 0.02 ? "left" : at > 0.98 ? "right" : "center";
    context.fillText(text, MARGIN + bar * at, top + height + MARGIN + 17);
  }
  context.textAlign = "left";
  write(foot, top + height + MARGIN + 44);
  return made;
}

function savePicture() {
  drawPicture().toBlob((blob) => {
    const link = element("a");
    link.href = URL.createObjectURL(blob);
    const slot = data.slots.length ? `-${data.slot_starts[state.slot].replace(/[^0-9A-Za-z]+/g, "-")}` : "";
    link.download = `map${slot}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }, "image/png");
}

/* The element that shows this view in another page. A page that was opened as a file is named alone. */
function embedding() {
  const address = location.protocol === "file:" ? location.pathname.split("/").pop() + location.hash : location.href;
  const quoted = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
  return `<iframe src="${quoted(address)}" title="${quoted(document.title)}" width="100%" height="800" loading="lazy"></iframe>`;
}

/* Shows the timeslots one after the other, until the reader chooses one. */
function startPlay() {
  const button = byId("slot-play");
  if (!button) return;
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.setAttribute("aria-pressed", "false");
    button.textContent = label("play");
  };
  button.addEventListener("click", () => {
    if (timer) return stop();
    button.setAttribute("aria-pressed", "true");
    button.textContent = label("pause");
    timer = setInterval(() => change({ slot: (state.slot + 1) % data.slots.length }), 1200);
  });
  for (const id of ["slot", "slot-before", "slot-after"]) byId(id).addEventListener(id === "slot" ? "input" : "click", stop);
  byId("against")?.addEventListener("change", stop);
}

function startShare() {
  byId("save-picture").addEventListener("click", savePicture);
  const code = byId("embedding");
  const show = () => { code.value = embedding(); };
  addEventListener("hashchange", show);
  state.listeners.push(show);
  code.addEventListener("focus", () => code.select());
  show();
  startPlay();
}
