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

/* What is said of one cell, in the tip and in the readout alike. */
function describe(row, into) {
  into.replaceChildren(
    element("span", "id", nameOf(row)),
    element("strong", "value", withUnit(number(column.value[row]))),
  );
  const lines = [
    `\u00b1${withUnit(number(column.bound[row]))} (95% bound)`,
    `${number(column.low[row])} to ${withUnit(number(column.high[row]))}`,
    `${count(column.users[row])} ${data.unit}${column.users[row] === 1 ? "" : "s"}, ${count(column.records[row])} records`,
  ];
  for (const line of lines) into.append(element("p", "", line));
  const flag = flagOf(row);
  if (flag === "caution") into.append(element("p", "flag", "Caution: read with care"));
  if (flag === "cut off") into.append(element("p", "flag", "Cut off: the true number may lie far beyond"));
  if (flag === "noise") into.append(element("p", "flag", "Noise: says next to nothing"));
}
