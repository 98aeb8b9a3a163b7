/* The drawing: ground, hexagons and names on a canvas that is larger than the map, so that a move
   shows what is drawn already. Positions are whole steps of the projection, y downwards. */
const frame = byId("map-frame");
const canvas = byId("map").appendChild(element("canvas"));
const pen = canvas.getContext("2d");
const sheet = document.createElement("canvas");
const ink = sheet.getContext("2d");
/* Hexagons of a path at most: browsers draw many such paths faster than one of thousands. */
const PATH = 256;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const COLOURS = {
  light: { sea: "#dfe8ee", land: "#fafaf8", lake: "#dfe8ee", coast: "#8fa3b1", river: "#b5cddc", border: "#8a8f96", region: "#c3c7cc", street: "#aab3bc", empty: "none", emptyEdge: "#c3cad1", edge: "#ffffff", name: "#1b1f23", halo: "rgb(255 255 255 / 82%)", street_name: "#57606a", hover: "#1b1f23", chosen: "#c2410c", mark: "rgb(60 66 72 / 75%)", hatching: "rgb(60 66 72 / 40%)", over: "rgb(40 50 60 / 38%)", street_over: "rgb(255 255 255 / 35%)" },
  dark: { sea: "#161c22", land: "#22272d", lake: "#161c22", coast: "#5b6975", river: "#34434f", border: "#7a828b", region: "#434a52", street: "#5c656e", empty: "none", emptyEdge: "#4d555d", edge: "#1a1e22", name: "#f2f4f6", halo: "rgb(15 18 21 / 78%)", street_name: "#aab4be", hover: "#ffffff", chosen: "#ff9d5c", mark: "rgb(205 212 220 / 75%)", hatching: "rgb(205 212 220 / 42%)", over: "rgb(230 238 245 / 30%)", street_over: "rgb(15 18 21 / 35%)" },
};

/* Lines come as a first corner and moves: x, y, x, y, ... north upwards. */
function toShape(moves) {
  const points = new Float64Array(moves.length);
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  let [x, y] = [0, 0];
  for (let i = 0; i < moves.length; i += 2) {
    x += moves[i];
    y -= moves[i + 1];
    points[i] = x;
    points[i + 1] = y;
    box[0] = Math.min(box[0], x);
    box[1] = Math.min(box[1], y);
    box[2] = Math.max(box[2], x);
    box[3] = Math.max(box[3], y);
  }
  return { points, box };
}

const shapes = data.map.rings.map(toShape);
const layers = Object.fromEntries(Object.entries(data.map.layers).map(([kind, lines]) => [kind, lines.map(toShape)]));
const streets = data.map.context.map(toShape);
const [westEnd, southEnd, eastEnd, northEnd] = data.map.extent;
const whole = shapes.reduce((all, { box }) => [Math.min(all[0], box[0]), Math.min(all[1], box[1]), Math.max(all[2], box[2]), Math.max(all[3], box[3])], [Infinity, Infinity, -Infinity, -Infinity]);

/* The view: k pixels a step, x and y the pixel of the middle of the projection. */
let view = { k: 1, x: 0, y: 0 };
/* What the sheet shows: its view, and the pixels that it has beyond each side of the map. */
const drawn = { k: 0, x: 0, y: 0, beyond: 0, looks: [], took: 0 };
const size = () => [frame.clientWidth, frame.clientHeight];
const sharpness = () => (paper.matches ? 2 : Math.min(2, window.devicePixelRatio || 1));

function trace(context, { points }, at) {
  context.moveTo(points[0] * at.k + at.x, points[1] * at.k + at.y);
  for (let i = 2; i < points.length; i += 2) context.lineTo(points[i] * at.k + at.x, points[i + 1] * at.k + at.y);
}

function sees({ box }, at, width, height) {
  return box[2] * at.k + at.x >= 0 && box[0] * at.k + at.x <= width && box[3] * at.k + at.y >= 0 && box[1] * at.k + at.y <= height;
}

/* Draws all on the sheet, for the present view. */
function paint() {
  const began = performance.now();
  const [width, height] = size();
  const beyond = Math.round(Math.max(width, height) * 0.4);
  const [w, h] = [width + 2 * beyond, height + 2 * beyond];
  const ratio = sharpness();
  if (sheet.width !== Math.round(w * ratio) || sheet.height !== Math.round(h * ratio)) {
    sheet.width = Math.round(w * ratio);
    sheet.height = Math.round(h * ratio);
  }
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  const at = { k: view.k, x: view.x + beyond, y: view.y + beyond };
  const colours = COLOURS[mode()];
  const near = (list) => list.filter((shape) => sees(shape, at, w, h));
  paintGround(near, at, colours, w, h);
  drawn.looks = appearance(data.palette[mode()]);
  paintCells(at, colours, w, h);
  ink.lineJoin = "round";
  strokeAll(near(streets.filter(({ points }) => points.length > 2)), at, colours.street_over, 0.8);
  // On the map of a city, lines that are off by a kilometre stay below the hexagons.
  if (layers.land && (eastEnd - westEnd) * data.map.unit > 150e3) {
    strokeCoast(near(layers.land), at, colours.over, 1);
    strokeAll(near(layers.border), at, colours.over, 1.1);
  }
  paintNames(at, colours, w, h, beyond);
  Object.assign(drawn, view, { beyond, took: performance.now() - began });
}

function paintGround(near, at, colours, w, h) {
  const hasLand = Boolean(data.map.layers.land);
  ink.fillStyle = hasLand ? colours.sea : colours.land;
  ink.fillRect(0, 0, w, h);
  for (const [kind, colour] of hasLand ? [["land", colours.land], ["lake", colours.lake]] : []) {
    ink.beginPath();
    for (const shape of near(layers[kind])) { trace(ink, shape, at); ink.closePath(); }
    ink.fillStyle = colour;
    ink.fill("evenodd");
  }
  if (hasLand) {
    strokeCoast(near([...layers.land, ...layers.lake]), at, colours.coast, 0.8);
    strokeAll(near(layers.river), at, colours.river, 1);
    strokeAll(near(layers.region), at, colours.region, 0.8);
    strokeAll(near(layers.border), at, colours.border, 1);
  }
  strokeAll(near(streets), at, colours.street, 0.9);
  ink.fillStyle = colours.street;
  for (const { points } of near(streets)) if (points.length === 2) ink.fillRect(points[0] * at.k + at.x - 1.5, points[1] * at.k + at.y - 1.5, 3, 3);
}

function strokeAll(list, at, colour, width) {
  if (!list.length) return;
  ink.beginPath();
  for (const shape of list) trace(ink, shape, at);
  ink.strokeStyle = colour;
  ink.lineWidth = width;
  ink.stroke();
}

/* Outlines of land, without the edges along which the drawn square cuts them. */
function strokeCoast(list, at, colour, width) {
  const cut = (x, y, x2, y2) => (x === x2 && (Math.abs(x - westEnd) <= data.map.detail || Math.abs(x - eastEnd) <= data.map.detail)) || (y === y2 && (Math.abs(y + southEnd) <= data.map.detail || Math.abs(y + northEnd) <= data.map.detail));
  ink.beginPath();
  for (const { points } of list) {
    for (let i = 0; i < points.length; i += 2) {
      const j = (i + 2) % points.length;
      if (i === 0) ink.moveTo(points[0] * at.k + at.x, points[1] * at.k + at.y);
      const [x, y] = [points[j] * at.k + at.x, points[j + 1] * at.k + at.y];
      if (cut(points[i], points[i + 1], points[j], points[j + 1])) ink.moveTo(x, y);
      else ink.lineTo(x, y);
    }
  }
  ink.strokeStyle = colour;
  ink.lineWidth = width;
  ink.stroke();
}

/* Hexagons by colour, many in a path; then the marks of grades. */
function paintCells(at, colours, w, h) {
  const paths = [];
  const open = new Map();
  const marks = { noise: [], "cut off": [], "cannot be told": [] };
  shapes.forEach((shape, place) => {
    if (!sees(shape, at, w, h)) return;
    const look = drawn.looks[place];
    const colour = look?.colour ?? colours.empty;
    if (!(open.get(colour)?.length < PATH)) {
      open.set(colour, []);
      paths.push([colour, open.get(colour)]);
    }
    open.get(colour).push(shape);
    if (look?.mark in marks) marks[look.mark].push(place);
  });
  const across = (shapes[0].box[2] - shapes[0].box[0]) * at.k;
  for (const [colour, list] of paths) {
    ink.beginPath();
    for (const shape of list) { trace(ink, shape, at); ink.closePath(); }
    ink.fillStyle = colour;
    // What is not published is hollow: the ground is seen through it.
    if (colour !== colours.empty) ink.fill();
    if (across < 9) continue;
    ink.strokeStyle = colour === colours.empty ? colours.emptyEdge : colours.edge;
    ink.lineWidth = across < 14 ? 0.5 : 1;
    ink.stroke();
  }
  if (across < 9) return;
  paintMarks(marks, at, colours, Math.min(across / 9, 4));
  paintHatching(marks["cannot be told"], at, colours, 0.41 * across);
}

/* What cannot be told is blank but for thin slanting lines, inside the circle that touches the sides. */
function paintHatching(places, at, colours, radius) {
  ink.beginPath();
  for (const place of places) {
    const [x, y] = middle(place, at);
    for (let away = (radius % 5) - radius + 2.5; away < radius; away += 5) {
      const half = Math.sqrt(radius * radius - away * away);
      ink.moveTo(x + (away - half) * Math.SQRT1_2, y + (away + half) * Math.SQRT1_2);
      ink.lineTo(x + (away + half) * Math.SQRT1_2, y + (away - half) * Math.SQRT1_2);
    }
  }
  ink.strokeStyle = colours.hatching;
  ink.lineWidth = 0.8;
  ink.stroke();
}

/* Noise: a cross. Cut off: a triangle towards the side on which the true number may lie. */
function paintMarks(marks, at, colours, half) {
  ink.beginPath();
  for (const place of marks.noise) {
    const [x, y] = middle(place, at);
    ink.moveTo(x - half, y - half);
    ink.lineTo(x + half, y + half);
    ink.moveTo(x - half, y + half);
    ink.lineTo(x + half, y - half);
  }
  for (const place of marks["cut off"]) {
    const [x, y] = middle(place, at);
    const row = rowOf(place, state.slot);
    const up = column.high[row] - column.value[row] >= column.value[row] - column.low[row] ? -1 : 1;
    ink.moveTo(x - half, y - up * half / 2);
    ink.lineTo(x + half, y - up * half / 2);
    ink.lineTo(x, y + up * half);
    ink.closePath();
  }
  ink.strokeStyle = colours.mark;
  ink.lineWidth = 1.2;
  ink.stroke();
}

function middle(place, at) {
  const { box } = shapes[place];
  return [(box[0] + box[2]) / 2 * at.k + at.x, (box[1] + box[3]) / 2 * at.k + at.y];
}

/* A name stands below the hexagon that its place is in, as long as that is small. */
function below(stepX, stepY, y, at) {
  if ((shapes[0].box[2] - shapes[0].box[0]) * at.k > 60) return y;
  const over = shapes.findIndex((shape, place) => drawn.looks[place] && holds(shape, stepX, stepY));
  return over < 0 ? y : shapes[over].box[3] * at.k + at.y + 8;
}

/* Names, the best known first; one that would cover another is left out. Names of places in view
   stand in view as a whole: `beyond` pixels of the sheet are outside on each side. */
function paintNames(at, colours, w, h, beyond) {
  const taken = [];
  const write = (list, font, colour, most) => {
    ink.font = `${font} ${FONT}`;
    ink.textAlign = "center";
    ink.textBaseline = "middle";
    ink.lineWidth = 3;
    ink.strokeStyle = colours.halo;
    ink.fillStyle = colour;
    let written = 0;
    for (const [stepX, stepY, name] of list) {
      const place = stepX * at.k + at.x;
      const y = below(stepX, -stepY, -stepY * at.k + at.y, at);
      if (place < 0 || place > w || y < 0 || y > h) continue;
      const half = ink.measureText(name).width / 2 + 4;
      const inView = place >= beyond && place <= w - beyond && w - 2 * beyond > 2 * half;
      const x = inView ? Math.min(Math.max(place, beyond + half), w - beyond - half) : place;
      const box = [x - half, y - 8, x + half, y + 8];
      if (taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
      taken.push(box);
      ink.strokeText(name, x, y);
      ink.fillText(name, x, y);
      written += 1;
      if (written === most) break;
    }
  };
  ink.lineJoin = "round";
  write(data.map.labels, "500 12px", colours.name, Math.ceil(w * h / 22000));
  write(data.map.streets, "italic 11px", colours.street_name, Math.ceil(w * h / 30000));
}

/* Shows the sheet for the present view, and on it the hexagons that are chosen and pointed at. */
function show() {
  const [width, height] = size();
  const ratio = sharpness();
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const grown = view.k / drawn.k;
  const [left, top] = [view.x - (drawn.x + drawn.beyond) * grown, view.y - (drawn.y + drawn.beyond) * grown];
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.imageSmoothingEnabled = grown !== 1;
  const [x, y] = grown === 1 ? [Math.round(left * ratio) / ratio, Math.round(top * ratio) / ratio] : [left, top];
  pen.drawImage(sheet, x, y, sheet.width / ratio * grown, sheet.height / ratio * grown);
  const colours = COLOURS[mode()];
  for (const [place, colour, line] of [[pointed.place, colours.hover, 2], [state.place, colours.chosen, 3], [state.second, colours.chosen, 3]]) {
    if (place === null) continue;
    pen.beginPath();
    trace(pen, shapes[place], view);
    pen.closePath();
    pen.strokeStyle = colour;
    pen.lineWidth = line;
    pen.stroke();
  }
  if (pointed.keys) {
    pen.strokeStyle = colours.hover;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const [dx, dy] of [[9, 0], [0, 9]]) { pen.moveTo(width / 2 - dx, height / 2 - dy); pen.lineTo(width / 2 + dx, height / 2 + dy); }
    pen.stroke();
  }
}

/* Whether the sheet still serves: it covers the map, and is not stretched far. */
function serves() {
  const grown = view.k / drawn.k;
  if (!(grown > 0.75 && grown < 1.6)) return false;
  const [width, height] = size();
  const left = view.x - (drawn.x + drawn.beyond) * grown;
  const top = view.y - (drawn.y + drawn.beyond) * grown;
  return left <= 0 && top <= 0 && left + (width + 2 * drawn.beyond) * grown >= width && top + (height + 2 * drawn.beyond) * grown >= height;
}

let asked = 0;
let settling = 0;

/* Draws in the next frame: anew if wanted or needed, and sharply once the map rests. */
function refresh(anew = false) {
  if (anew) drawn.k = 0;
  clearTimeout(settling);
  settling = setTimeout(() => { if (drawn.k !== view.k) refresh(true); }, 150);
  if (asked) return;
  asked = requestAnimationFrame(() => {
    asked = 0;
    if (!serves()) paint();
    show();
    placeScale();
  });
}

/* The bar of the scale: a round length of at most a fifth of the map; none for a continent. */
function placeScale() {
  const bar = byId("scale");
  const metres = data.map.unit / view.k;
  const rough = metres * Math.min(140, frame.clientWidth / 4);
  const power = 10 ** Math.floor(Math.log10(rough));
  const length = [5, 2, 1].map((m) => m * power).find((m) => m <= rough);
  bar.hidden = !length || (whole[2] - whole[0]) * data.map.unit > 8e6;
  if (bar.hidden) return;
  bar.style.width = `${length / metres}px`;
  bar.textContent = length >= 1000 ? `${count(length / 1000)} km` : `${length} m`;
}
