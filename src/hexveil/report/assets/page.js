/* The state of the page and what every part of it reads: one slot shown, one row chosen. */
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const column = data.columns;
const rows = column.value.length;
const flags = ["good", "caution", "cut off", "noise"];
const flagOf = (row) => flags[column.quality[row]];
const state = { slot: 0, row: null, listeners: [] };

function change(part) {
  Object.assign(state, part);
  for (const listener of state.listeners) listener(part);
}

function number(value) {
  if (value === null) return "\u2013";
  const digits = data.value.decimals;
  return value.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/* A label of the page, templates/page/labels.json, with its places filled. */
const label = (name, values = {}) => data.text[name].replace(/\{(\w+)\}/g, (_, key) => values[key]);
const count = (value) => value.toLocaleString("en-GB");
const withUnit = (text) => (data.value.unit ? text + "\u00a0" + data.value.unit : text);
const slotOf = (row) => (data.slot ? data.slot[row] : 0);
const nameOf = (row) => (data.hexagon ? data.names[data.hexagon[row]] : "");

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/* Describe one cell, in the tip and in the readout. */
function describe(row, into) {
  into.replaceChildren(
    element("span", "id", nameOf(row)),
    element("strong", "value", withUnit(number(column.value[row]))),
  );
  const lines = [
    label("bound", { amount: withUnit(number(column.bound[row])) }),
    label("interval", { low: number(column.low[row]), high: withUnit(number(column.high[row])) }),
    label("counts", { users: count(column.users[row]), unit: data.unit + (column.users[row] === 1 ? "" : "s"), records: count(column.records[row]) }),
  ];
  for (const line of lines) into.append(element("p", "", line));
  const flag = flagOf(row);
  if (flag !== "good") into.append(element("p", "flag", label(flag)));
}
