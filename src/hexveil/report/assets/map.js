/* The map answers: it moves and zooms (d3), and a pointer or a key reads a hexagon. */
const tip = byId("tip");
const pointed = { place: null, keys: false };
const surface = d3.select(frame);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const zooming = d3.zoom().clickDistance(6).tapDistance(12)
  .filter((event) => !event.target.closest(".zoom") && !(event.ctrlKey && event.type !== "wheel") && !event.button)
  .on("zoom", ({ transform }) => {
    view = { k: transform.k, x: transform.x, y: transform.y };
    refresh();
  });

/* The whole of the data with some room around it; a lone hexagon does not fill the map. */
function fitted() {
  const [width, height] = size();
  const across = shapes.map(({ box }) => box[2] - box[0]).sort((a, b) => a - b)[shapes.length >> 1];
  const k = Math.min(width / Math.max((whole[2] - whole[0]) * 1.1, 3 * across), height / Math.max((whole[3] - whole[1]) * 1.1, 3 * across));
  return d3.zoomIdentity.translate(width / 2, height / 2).scale(k)
    .translate(-(whole[0] + whole[2]) / 2, -(whole[1] + whole[3]) / 2);
}

function limitZoom() {
  const [width, height] = size();
  const across = shapes[0].box[2] - shapes[0].box[0];
  const least = Math.min(fitted().k, Math.max(width / (eastEnd - westEnd), height / (northEnd - southEnd)));
  zooming.extent([[0, 0], [width, height]])
    .translateExtent([[westEnd, -northEnd], [eastEnd, -southEnd]])
    .scaleExtent([least, Math.max(fitted().k * 4, 400 / across)]);
}

const reset = () => surface.call(zooming.transform, fitted());
const zoomBy = (factor) => (calm ? surface : surface.transition().duration(200)).call(zooming.scaleBy, factor);

/* Chooses a place; while a second one is asked for, that. */
function choose(place) {
  if (state.picking && place !== null && place !== state.place) change({ second: place, picking: false });
  else change({ place, second: null, picking: false });
}

/* The place whose hexagon is drawn at a pixel of the map, or null. */
function placeAt(pixelX, pixelY) {
  const [x, y] = [(pixelX - view.x) / view.k, (pixelY - view.y) / view.k];
  const found = shapes.findIndex((shape, place) => drawn.looks[place] && holds(shape, x, y));
  return found < 0 ? null : found;
}

function holds({ points, box }, x, y) {
  if (x < box[0] || x > box[2] || y < box[1] || y > box[3]) return false;
  let inside = false;
  for (let i = 0, j = points.length - 2; i < points.length; j = i, i += 2) {
    const crosses = (points[i + 1] > y) !== (points[j + 1] > y);
    if (crosses && x < (points[j] - points[i]) * (y - points[i + 1]) / (points[j + 1] - points[i + 1]) + points[i]) inside = !inside;
  }
  return inside;
}

function pixelOf(event) {
  const box = frame.getBoundingClientRect();
  return [event.clientX - box.left - frame.clientLeft, event.clientY - box.top - frame.clientTop];
}

function hover(event) {
  const pixel = pixelOf(event);
  const over = event.pointerType === "touch" || event.buttons || event.target.closest?.(".zoom") ? null : placeAt(...pixel);
  if (over !== pointed.place) {
    pointed.place = over;
    if (over !== null) describe(over, tip);
    tip.hidden = over === null;
    refresh();
  }
  if (over !== null) placeTip(...pixel);
}

/* Keeps the tip inside the map, on the other side of the pointer where there is no room. */
function placeTip(x, y) {
  const [width, height] = size();
  const left = x + 16 + tip.offsetWidth > width ? x - 16 - tip.offsetWidth : x + 16;
  const top = y + 16 + tip.offsetHeight > height ? y - 16 - tip.offsetHeight : y + 16;
  tip.style.left = Math.max(4, Math.min(left, width - tip.offsetWidth - 6)) + "px";
  tip.style.top = Math.max(4, Math.min(top, height - tip.offsetHeight - 6)) + "px";
}

function unhover() {
  pointed.place = null;
  tip.hidden = true;
  refresh();
}

/* Arrows move the map, plus and minus zoom, 0 shows all, Enter reads the hexagon in the middle. */
function press(event) {
  if (event.target !== frame) return;
  const moves = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const move = moves[event.key];
  const [width, height] = size();
  pointed.keys = true;
  if (move) surface.call(zooming.translateBy, move[0] * 60 / view.k, move[1] * 60 / view.k);
  else if (event.key === "+" || event.key === "-") surface.call(zooming.scaleBy, event.key === "+" ? 1.5 : 1 / 1.5);
  else if (event.key === "0") reset();
  else if (event.key === "Enter") choose(placeAt(width / 2, height / 2));
  else return;
  event.preventDefault();
}

function listen() {
  surface.call(zooming);
  frame.addEventListener("keydown", press);
  frame.addEventListener("blur", () => { pointed.keys = false; refresh(); });
  frame.addEventListener("pointermove", hover);
  frame.addEventListener("pointerleave", unhover);
  frame.addEventListener("click", (event) => {
    if (event.target.closest(".zoom")) return;
    choose(placeAt(...pixelOf(event)));
    if (state.place !== null) approach(state.second ?? state.place);
    // On a phone the card stands below the map.
    if (state.place !== null) byId("readout").scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  });
  byId("zoom-in").addEventListener("click", () => zoomBy(1.5));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.5));
  byId("zoom-reset").addEventListener("click", reset);
  paper.addEventListener("change", () => refresh(true));
  addEventListener("beforeprint", () => { paint(); show(); });
}

/* Fingers need room: a tap on a small hexagon brings it near enough to tap its neighbours. */
function approach(place) {
  const { box } = shapes[place];
  const across = box[2] - box[0];
  if (across * view.k >= 24 || !matchMedia("(pointer: coarse)").matches) return;
  surface.call(zooming.scaleTo, 44 / across);
  surface.call(zooming.translateTo, (box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
}

/* Shows a place in the middle of the map, so near that its surroundings reach the edges. */
function showOnMap(place) {
  choose(place);
  const { box } = shapes[place];
  surface.call(zooming.scaleTo, Math.max(view.k, 2.3 * fitted().k));
  surface.call(zooming.translateTo, (box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
  frame.scrollIntoView({ block: "center" });
}

function startMap() {
  limitZoom();
  listen();
  reset();
  state.listeners.push((part) => refresh("statistic" in part || "slot" in part || "against" in part || "scheme" in part));
  let [width, height] = size();
  new ResizeObserver(() => {
    const [newWidth, newHeight] = size();
    if (newWidth === width && newHeight === height) return;
    // The same middle, and as much of the ground from west to east.
    const centre = [(width / 2 - view.x) / view.k, (height / 2 - view.y) / view.k];
    const k = view.k * newWidth / width;
    [width, height] = [newWidth, newHeight];
    limitZoom();
    surface.call(zooming.transform, d3.zoomIdentity.translate(width / 2, height / 2).scale(k).translate(-centre[0], -centre[1]));
    refresh(true);
  }).observe(frame);
}
