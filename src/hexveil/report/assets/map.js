/* The map: Bokeh draws, pans and zooms; this fills its layers and reads the pointer. */
const frame = byId("map-frame");
const tip = byId("tip");
const shapes = data.map.rings.map(toShape);
const RADIUS = 6371008.8;
let plot = null;
let shownRows = [];
let hovered = null;

function toShape(ring) {
  const xs = [];
  const ys = [];
  for (let i = 0; i < ring.length; i += 2) {
    xs.push(ring[i] * data.map.unit);
    ys.push(ring[i + 1] * data.map.unit);
  }
  const box = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  return { xs, ys, box };
}

const layer = (name) => plot.document.get_model_by_name(name);
const fill = (name, columns) => { layer(name).data = columns; };
const outlines = (list) => ({ xs: list.map((s) => s.xs), ys: list.map((s) => s.ys) });

/* The whole of the data, with room around it; a lone hexagon does not fill the map. */
function extent() {
  const low = (k) => shapes.reduce((least, s) => Math.min(least, s.box[k]), Infinity);
  const high = (k) => shapes.reduce((most, s) => Math.max(most, s.box[k]), -Infinity);
  const [w, e, s, n] = [low(0), high(1), low(2), high(3)];
  const widths = shapes.map((shape) => shape.box[1] - shape.box[0]).sort((a, b) => a - b);
  const size = widths[widths.length >> 1];
  return { x: (w + e) / 2, y: (s + n) / 2, width: Math.max((e - w) * 1.08, 3 * size), height: Math.max((n - s) * 1.08, 3 * size) };
}

const view = { x: 0, y: 0, scale: 1 };

/* Shows the view: `scale` is metres a pixel, the same both ways. */
function look() {
  const [w, h] = [frame.clientWidth * view.scale / 2, frame.clientHeight * view.scale / 2];
  plot.x_range.setv({ start: view.x - w, end: view.x + w });
  plot.y_range.setv({ start: view.y - h, end: view.y + h });
}

function reset() {
  const all = extent();
  Object.assign(view, { x: all.x, y: all.y, scale: Math.max(all.width / frame.clientWidth, all.height / frame.clientHeight) });
  look();
}

function zoom(factor) {
  view.scale *= factor;
  look();
}

/* Takes the view from the ranges after Bokeh moved them. */
function readView() {
  const { x_range: x, y_range: y } = plot;
  Object.assign(view, { x: (x.start + x.end) / 2, y: (y.start + y.end) / 2, scale: (x.end - x.start) / frame.clientWidth });
}

/* Cells of a slot: colour by value, hatching by quality. */
function drawSlot() {
  shownRows = [];
  const drawn = new Set();
  for (let row = 0; row < rows; row += 1) {
    if (slotOf(row) !== state.slot) continue;
    shownRows.push(row);
    drawn.add(data.hexagon[row]);
  }
  const shapeOf = (row) => shapes[data.hexagon[row]];
  fill("cells", {
    ...outlines(shownRows.map(shapeOf)),
    value: shownRows.map((row) => column.value[row] ?? NaN),
    alpha: shownRows.map((row) => (flagOf(row) === "noise" ? 0.22 : 1)),
  });
  for (const name of ["caution_dark", "caution_bright", "cut_dark", "cut_bright", "noise"]) {
    fill(name, outlines(shownRows.filter((row) => hatching(row) === name).map(shapeOf)));
  }
  fill("empty", outlines(shapes.filter((_, i) => !drawn.has(i))));
}

function hatching(row) {
  const { low, high } = data.colour;
  const ink = column.value[row] > (low + high) / 2 ? "bright" : "dark";
  return { good: "none", caution: `caution_${ink}`, "cut off": `cut_${ink}`, noise: "noise" }[flagOf(row)];
}

function drawContext() {
  const lines = data.map.context.map(toShape);
  fill("context", outlines(lines.filter((s) => s.xs.length > 1)));
  fill("context_above", outlines(lines.filter((s) => s.xs.length > 1)));
  const points = lines.filter((s) => s.xs.length === 1);
  fill("points", { x: points.map((s) => s.xs[0]), y: points.map((s) => s.ys[0]) });
}

/* Degrees and metres of the drawing, both ways. */
const metresPerRadian = RADIUS * Math.cos(data.map.lat * Math.PI / 180);
const mercator = (lat) => Math.atanh(Math.sin(lat * Math.PI / 180));
const xOf = (lon) => (lon - data.map.lon) * Math.PI / 180 * metresPerRadian;
const yOf = (lat) => (mercator(lat) - mercator(data.map.lat)) * metresPerRadian;
const lonOf = (x) => data.map.lon + x / metresPerRadian * 180 / Math.PI;
const latOf = (y) => Math.asin(Math.tanh(y / metresPerRadian + mercator(data.map.lat))) * 180 / Math.PI;

function degrees(value, step, marks) {
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const size = Math.abs(value).toFixed(digits);
  return size + "\u00b0" + (Number(size) % 180 === 0 ? "" : value > 0 ? marks[0] : marks[1]);
}

const wrapped = (lon) => ((lon + 540) % 360 + 360) % 360 - 180;

function steps(from, to, wanted) {
  const rough = (to - from) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const list = [];
  for (let i = Math.ceil(from / step); i * step <= to && list.length < 40; i += 1) list.push(i * step);
  return { step, list };
}

/* Lines of longitude and latitude with their names along the left and upper edge, clear of the buttons. */
function drawGraticule() {
  const { x_range: x, y_range: y } = plot;
  const edge = 5 * view.scale;
  const lons = steps(lonOf(x.start), lonOf(x.end), Math.max(2, frame.clientWidth / 130));
  const lats = steps(latOf(y.start), latOf(y.end), Math.max(2, frame.clientHeight / 140));
  fill("graticule", {
    xs: [...lons.list.map((l) => [xOf(l), xOf(l)]), ...lats.list.map(() => [x.start, x.end])],
    ys: [...lons.list.map(() => [y.start, y.end]), ...lats.list.map((l) => [yOf(l), yOf(l)])],
  });
  fill("degrees", {
    x: [...lons.list.map((l) => xOf(l) + edge), ...lats.list.map(() => x.start + edge)],
    y: [...lons.list.map(() => y.end - edge), ...lats.list.map((l) => yOf(l) + edge / 2)],
    text: [...lons.list.map((l) => (xOf(l) > x.end - 110 * view.scale ? "" : degrees(wrapped(l), lons.step, "EW"))), ...lats.list.map((l) => (yOf(l) > y.end - 20 * view.scale ? "" : degrees(l, lats.step, "NS")))],
    align: [...lons.list.map(() => "left"), ...lats.list.map(() => "left")],
    base: [...lons.list.map(() => "top"), ...lats.list.map(() => "bottom")],
  });
}

/* The row whose hexagon holds the place of a pointer, or null. */
function rowAt(event) {
  const box = frame.getBoundingClientRect();
  const x = plot.x_range.start + (event.clientX - box.left - frame.clientLeft) * view.scale;
  const y = plot.y_range.end - (event.clientY - box.top - frame.clientTop) * view.scale;
  return shownRows.find((row) => holds(shapes[data.hexagon[row]], x, y)) ?? null;
}

function holds({ xs, ys, box }, x, y) {
  if (x < box[0] || x > box[1] || y < box[2] || y > box[3]) return false;
  let inside = false;
  for (let i = 0, j = xs.length - 1; i < xs.length; j = i, i += 1) {
    const crosses = (ys[i] > y) !== (ys[j] > y);
    if (crosses && x < (xs[j] - xs[i]) * (y - ys[i]) / (ys[j] - ys[i]) + xs[i]) inside = !inside;
  }
  return inside;
}

function hover(event) {
  const over = event.pointerType === "touch" || event.target.closest?.(".zoom") ? null : rowAt(event);
  if (over !== hovered) {
    hovered = over;
    fill("hovered", outlines(over === null ? [] : [shapes[data.hexagon[over]]]));
    if (over !== null) describe(over, tip);
    tip.hidden = over === null;
  }
  if (over !== null) placeTip(event);
}

/* Keeps the tip inside the map, on the other side of the pointer where there is no room. */
function placeTip(event) {
  const box = frame.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const left = x + 16 + tip.offsetWidth > box.width ? x - 16 - tip.offsetWidth : x + 16;
  const top = y + 16 + tip.offsetHeight > box.height ? y - 16 - tip.offsetHeight : y + 16;
  tip.style.left = Math.max(4, Math.min(left, box.width - tip.offsetWidth - 6)) + "px";
  tip.style.top = Math.max(4, top) + "px";
}

function unhover() {
  hovered = null;
  tip.hidden = true;
  fill("hovered", outlines([]));
}

function drawChosen() {
  fill("chosen", outlines(state.row === null ? [] : [shapes[data.hexagon[state.row]]]));
  const bar = byId("colour-bar");
  bar.replaceChildren();
  if (state.row === null) {
    byId("readout").replaceChildren(element("p", "hint", label("hint")));
    return;
  }
  describe(state.row, byId("readout"));
  const at = (value) => Math.max(0, Math.min(100, 100 * (value - data.colour.low) / (data.colour.high - data.colour.low)));
  const interval = element("i");
  interval.style.left = at(column.low[state.row]) + "%";
  interval.style.right = 100 - at(column.high[state.row]) + "%";
  const dot = element("b");
  dot.style.left = at(column.value[state.row]) + "%";
  bar.append(interval, dot);
}

/* The same hexagon in another slot, so that the slider follows one place through the day. */
function rowOfHexagon(hexagon) {
  return shownRows.find((row) => data.hexagon[row] === hexagon) ?? null;
}

function showSlot() {
  unhover();
  drawSlot();
  const slider = byId("slot");
  if (slider) {
    slider.value = String(state.slot);
    slider.setAttribute("aria-valuetext", data.slots[state.slot]);
    byId("slot-name").textContent = data.slots[state.slot];
    byId("slot-before").disabled = state.slot === 0;
    byId("slot-after").disabled = state.slot === data.slots.length - 1;
  }
}

function moveToSlot(slot) {
  const hexagon = state.row === null ? null : data.hexagon[state.row];
  change({ slot });
  if (hexagon !== null) change({ row: rowOfHexagon(hexagon) });
}

/* Arrows move the map, plus and minus zoom, 0 shows all of it. */
function press(event) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const move = moves[event.key];
  if (move) {
    view.x += move[0] * 60 * view.scale;
    view.y += move[1] * 60 * view.scale;
    look();
  } else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1 / 1.5 : 1.5);
  else if (event.key === "0") reset();
  else return;
  event.preventDefault();
}

function listen() {
  frame.addEventListener("keydown", press);
  let pressed = null;
  frame.addEventListener("pointermove", hover);
  frame.addEventListener("pointerleave", unhover);
  frame.addEventListener("pointerdown", (event) => { pressed = [event.clientX, event.clientY]; }, true);
  // Bokeh's pan takes the pointer, so a tap is a press and a release in one place.
  frame.addEventListener("pointerup", (event) => {
    if (!pressed || event.target.closest?.(".zoom")) return;
    const moved = Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]);
    if (moved < 8) change({ row: rowAt(event) });
    pressed = null;
  }, true);
  byId("zoom-in").addEventListener("click", () => zoom(1 / 1.5));
  byId("zoom-out").addEventListener("click", () => zoom(1.5));
  byId("zoom-reset").addEventListener("click", reset);
  byId("slot")?.addEventListener("input", (event) => moveToSlot(Number(event.target.value)));
  byId("slot-before")?.addEventListener("click", () => moveToSlot(Math.max(0, state.slot - 1)));
  byId("slot-after")?.addEventListener("click", () => moveToSlot(Math.min(data.slots.length - 1, state.slot + 1)));
}

/* Shows a row of the table on the map. */
function showOnMap(row) {
  change({ slot: slotOf(row) });
  change({ row });
  const { box } = shapes[data.hexagon[row]];
  Object.assign(view, { x: (box[0] + box[1]) / 2, y: (box[2] + box[3]) / 2 });
  look();
  frame.scrollIntoView({ block: "center" });
}

async function startMap() {
  const item = JSON.parse(byId("map-item").textContent);
  await Bokeh.embed.embed_item(item, "map");
  plot = Bokeh.documents[Bokeh.documents.length - 1].get_model_by_name("map");
  let waiting = false;
  const moved = () => {
    readView();
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; drawGraticule(); });
  };
  for (const range of [plot.x_range, plot.y_range]) {
    range.properties.start.change.connect(moved);
    range.properties.end.change.connect(moved);
  }
  drawContext();
  state.listeners.push((part) => { if ("slot" in part) showSlot(); if ("row" in part) drawChosen(); });
  reset();
  showSlot();
  listen();
  let [width, height] = [frame.clientWidth, frame.clientHeight];
  new ResizeObserver(() => {
    if (frame.clientWidth === width && frame.clientHeight === height) return;
    view.scale *= width / frame.clientWidth;
    [width, height] = [frame.clientWidth, frame.clientHeight];
    look();
  }).observe(frame);
}
