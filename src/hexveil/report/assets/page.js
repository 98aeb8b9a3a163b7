/* The state of the page and what every part of it reads: the slot shown, the slot it is compared
   with, the place chosen, and the second place that it is compared with. A place is a hexagon, by its
   number. */
const byId = (id) => document.getElementById(id);
/* Numbers are written as the page's language does. */
const locale = document.documentElement.lang === "en" ? "en-GB" : document.documentElement.lang;
const data = JSON.parse(byId("data").textContent);
/* Numbers of the statistic shown, with the counts and labels of its cells: see choice.js. */
const column = Object.assign(data.columns, data.value_columns[0].counts, data.choices[0].columns);
Object.assign(data, { value: data.choices[0].value, colour: data.choices[0].colour, bins: data.value_columns[0].bins });
const rows = column.value.length;
const flags = ["good", "caution", "cut off", "noise", "closed", "higher", "lower", "cannot be told", "not published"];
/* Labels of cells without numbers. */
const unread = { closed: "closed_cell", "not published": "absent_cell" };
const flagOf = (row) => flags[column.quality[row]];
const state = { slot: data.start, against: null, place: null, second: null, picking: false, listeners: [] };

function change(part) {
  Object.assign(state, part);
  for (const listener of state.listeners) listener(part);
}

/* A number with so many digits after the point; for null a probability with two significant digits. */
function figure(value, digits) {
  if (value === null) return "\u2013";
  if (digits === null && value < 1e-4) return "<\u20090.0001";
  if (digits === null) return value.toLocaleString(locale, { maximumSignificantDigits: 2 });
  return value.toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

const number = (value) => figure(value, data.value.decimals);
const signed = (value) => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + number(value === null ? null : Math.abs(value));
/* A number as it is published: changes have a sign. */
const published = (value) => (data.value.signed ? signed(value) : number(value));

/* A label of the page, templates/page/labels.json, with its places filled. */
const label = (name, values = {}) => data.text[name].replace(/\{(\w+)\}/g, (_, key) => values[key]);
const count = (value) => value.toLocaleString(locale);
const withUnit = (text) => (data.value.unit ? text + "\u00a0" + data.value.unit : text);
const valueHeading = () => (data.value.unit ? `${data.value.name} (${data.value.unit})` : data.value.name);
const slotOf = (row) => (data.slot ? data.slot[row] : 0);
const nameOf = (row) => (data.hexagon ? data.names[data.hexagon[row]] : "");
const wordsOf = (place) => data.map.words[place] ?? data.names[place];

/* The row of a place in a slot, or null where it was not published. */
const slots = Math.max(1, data.slots.length);
const rowOf = (() => {
  if (!data.hexagon) return () => null;
  const found = new Int32Array(data.names.length * slots).fill(-1);
  for (let row = 0; row < rows; row += 1) found[data.hexagon[row] * slots + slotOf(row)] = row;
  return (place, slot) => (found[place * slots + slot] < 0 ? null : found[place * slots + slot]);
})();

/* The row of a place with numbers in a slot; null too where the cell has none. */
function openRow(place, slot) {
  const row = rowOf(place, slot);
  return row === null || unread[flagOf(row)] ? null : row;
}

/* Which ends of a row's interval are unknown: those where a range cut the cell off. */
function unknown(row) {
  const [lowest, highest] = data.value.limits;
  const cut = flagOf(row) === "cut off";
  return { low: cut && lowest !== null && column.low[row] <= lowest, high: cut && highest !== null && column.high[row] >= highest };
}

/* An interval in words: "13 to 25", or "at least 22" where its upper end is unknown. */
function range(row) {
  const open = unknown(row);
  const [low, high] = [published(column.low[row]), published(column.high[row])];
  if (open.low && open.high) return label("unknown");
  if (open.high) return label("at_least", { low });
  return open.low ? label("at_most", { high }) : label("interval", { low, high });
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
