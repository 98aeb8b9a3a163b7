/* The table: every cell, sorted by any column, twenty rows at a time. */
const PAGE = 20;
const tableState = { sort: null, down: false, page: 0, order: [] };
const heads = [
  ...(data.hexagon ? [{ key: "cell", name: label("place"), text: (row) => wordsOf(data.hexagon[row]) }] : []),
  // Places without a name are called by their hexagon already.
  ...(data.hexagon && data.map.words.some(Boolean) ? [{ key: "id", name: label("hexagon"), text: nameOf, spare: true }] : []),
  ...(data.slot ? [{ key: "slot", name: label("timeslot"), text: (row) => data.slots[data.slot[row]], by: slotOf, kind: "slot" }] : []),
  ...Object.keys(column).filter((key) => key.startsWith("label:")).map((key) => ({ key, name: key.slice(6), text: (row) => column[key][row], wide: true })),
  { key: "value", name: valueHeading(), by: (row) => column.value[row], text: (row) => published(column.value[row]) },
  { key: "bound", name: label("bound_column"), by: (row) => column.bound[row], text: (row) => (unknown(row).low || unknown(row).high ? range(row) : number(column.bound[row])) },
  { key: "low", name: label("from"), by: (row) => column.low[row], text: (row) => (unknown(row).low ? label("unknown") : published(column.low[row])), spare: true },
  { key: "high", name: label("to"), by: (row) => column.high[row], text: (row) => (unknown(row).high ? label("unknown") : published(column.high[row])), spare: true },
  { key: "quality", name: label("quality"), by: (row) => column.quality[row], text: (row) => label(`grade ${flagOf(row)}`) },
  ...data.extras.filter(({ name }) => name).map(({ key, name, decimals, spare }) => ({ key, name, spare, by: (row) => column[key][row], text: (row) => figure(column[key][row], decimals) })),
];
const numeric = (head) => head.by && head.key !== "slot" && head.key !== "quality";
const classes = (head) => [numeric(head) ? "number" : "", head.spare ? "spare" : "", head.wide ? "wide" : "", head.kind ?? ""].join(" ").trim();

/* Grades that a choice of the filter keeps. */
const kept = {
  all: flags, open: ["good", "caution", "cut off", "noise"], readable: ["good", "caution"], good: ["good"],
  changed: ["higher", "lower"], higher: ["higher"], lower: ["lower"],
};

/* Rows that match the search and the filters, in the chosen order; equal rows keep their order. */
function sortRows() {
  const wanted = byId("find").value.trim().toLowerCase();
  const onlySlot = byId("only-slot")?.checked;
  const grades = kept[byId("grade").value];
  const names = heads.filter((head) => !numeric(head));
  let list = Array.from({ length: rows }, (_, row) => row);
  if (onlySlot) list = list.filter((row) => slotOf(row) === state.slot);
  if (grades !== flags) list = list.filter((row) => grades.includes(flagOf(row)));
  if (wanted) list = list.filter((row) => names.some((head) => head.text(row).toLowerCase().includes(wanted)));
  const head = heads.find((h) => h.key === tableState.sort);
  if (head) {
    const keys = new Map(list.map((row) => [row, (head.by ?? head.text)(row) ?? -Infinity]));
    const sign = tableState.down ? -1 : 1;
    const collator = new Intl.Collator(locale, { numeric: true });
    const compare = head.by ? (a, b) => a - b : collator.compare;
    list.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || a - b);
  }
  tableState.order = list;
  tableState.page = 0;
}

function drawTable() {
  const pages = Math.max(1, Math.ceil(tableState.order.length / PAGE));
  const first = tableState.page * PAGE;
  const shown = tableState.order.slice(first, first + PAGE);
  byId("cells").tBodies[0].replaceChildren(...shown.map(drawRow));
  for (const th of byId("cells").tHead.rows[0].cells) {
    if (th.dataset.column !== tableState.sort) th.removeAttribute("aria-sort");
    else th.setAttribute("aria-sort", tableState.down ? "descending" : "ascending");
  }
  byId("page-name").textContent = shown.length
    ? label("pages", { first: count(first + 1), last: count(first + shown.length), count: count(tableState.order.length) })
    : label("no_match");
  byId("page-before").disabled = tableState.page === 0;
  byId("page-after").disabled = tableState.page >= pages - 1;
  byId("page-before").parentElement.hidden = rows <= PAGE && tableState.order.length === rows;
}

function drawRow(row) {
  const chosen = state.place !== null && data.hexagon[row] === state.place && slotOf(row) === state.slot;
  const tr = element("tr", flagOf(row).replaceAll(" ", "-") + (chosen ? " chosen" : ""));
  tr.dataset.row = String(row);
  for (const head of heads) {
    const td = element("td", classes(head));
    td.dataset.column = head.key;
    if (head.key === "cell") {
      const button = element("button", "", head.text(row));
      button.type = "button";
      button.title = label("show");
      button.addEventListener("click", () => { change({ slot: slotOf(row) }); showOnMap(data.hexagon[row]); });
      td.append(button);
    } else if (head.key === "id") {
      td.classList.add("id");
      td.append(element("span", "", head.text(row)));
    } else if (head.key === "slot") {
      // Day and hours each stay whole where a narrow table breaks the line.
      for (const part of head.text(row).split(/(?<=,) /)) td.append(element("span", "part", part), " ");
    } else td.append(element("span", head.key === "quality" ? "flag" : "", head.text(row)));
    tr.append(td);
  }
  return tr;
}

function sortBy(head) {
  const same = tableState.sort === head.key;
  // Numbers are first asked for from the largest, names from the first.
  Object.assign(tableState, { sort: head.key, down: same ? !tableState.down : Boolean(numeric(head)) });
  sortRows();
  drawTable();
}

function startTable() {
  for (const head of heads) {
    const th = element("th", classes(head));
    th.scope = "col";
    th.dataset.column = head.key;
    const button = element("button", "", head.name);
    button.type = "button";
    button.addEventListener("click", () => sortBy(head));
    th.append(button);
    byId("cells").tHead.rows[0].append(th);
  }
  const again = () => { sortRows(); drawTable(); };
  byId("find").addEventListener("input", again);
  byId("grade").addEventListener("change", again);
  byId("only-slot")?.addEventListener("change", again);
  byId("page-before").addEventListener("click", () => { tableState.page -= 1; drawTable(); });
  byId("page-after").addEventListener("click", () => { tableState.page += 1; drawTable(); });
  state.listeners.push((part) => ("statistic" in part || ("slot" in part && byId("only-slot")?.checked) ? again() : drawTable()));
  again();
}
