/* The card of the chosen hexagon, its profile over the slots, and the controls of the slots. */
const SVG = "http://www.w3.org/2000/svg";

/* Describes a place in the chosen slot, in the tip and in the card. */
function describe(place, into) {
  const row = rowOf(place, state.slot);
  into.replaceChildren(element("span", "where", wordsOf(place)));
  if (state.against !== null) describeDifference(place, into);
  else if (row !== null && unread[flagOf(row)]) into.append(element("p", "", label(unread[flagOf(row)])));
  else if (row === null) into.append(element("p", "", label("not_published")));
  else {
    const open = unknown(row);
    const cut = open.low || open.high;
    into.append(element("strong", "value", cut ? withUnit(range(row)) : withUnit(published(column.value[row]))));
    const amounts = Object.fromEntries(data.extras.map(({ key, decimals }) => [key, figure(column[key][row], decimals)]));
    const units = { unit: data.unit + (column.users?.[row] === 1 ? "" : "s"), units: data.unit + "s" };
    const lines = [
      ...(cut ? [] : [
        label("bound", { amount: withUnit(number(column.bound[row])) }),
        label("interval", { low: published(column.low[row]), high: withUnit(published(column.high[row])) }),
      ]),
      ...data.lines.map((name) => label(name, { ...amounts, ...units })),
    ];
    for (const line of lines) into.append(element("p", "", line));
    if (cut) into.append(element("p", "flag", label(open.low && open.high ? "cut off" : open.high ? "upper_unknown" : "lower_unknown")));
    else if (flagOf(row) !== "good") into.append(element("p", "flag", label(flagOf(row))));
  }
  into.append(element("p", "id", data.names[place]));
}

function describeDifference(place, into) {
  const found = difference(place);
  if (found === null) {
    into.append(element("p", "", label("not_both")));
    return;
  }
  into.append(...differenceWords(found, label("difference", { slot: data.slots[state.slot], against: data.slots[state.against] })));
}

/* A difference, what it is between, its interval, and whether it can be told. */
function differenceWords(found, between) {
  const [low, high] = [down(found.low), withUnit(down(-found.high, -1))];
  const { unknown: open } = found;
  const interval = open.low && open.high ? label("difference_unknown")
    : open.high ? label("difference_least", { low: withUnit(low) })
      : open.low ? label("difference_most", { high })
        : label("difference_interval", { low, high });
  return [
    element("strong", "value", withUnit(signed(found.value))),
    element("p", "", between),
    element("p", "", interval),
    element("p", "flag", label(found.sure ? "sure" : "unsure")),
  ];
}

/* A number rounded down to the digits shown, times a sign: the ends of an interval are rounded outwards. */
function down(value, sign = 1) {
  const steps = 10 ** data.value.decimals;
  return signed(sign * Math.floor(value * steps + 1e-6) / steps + 0);
}

/* Compares the chosen hexagon with a second one, which the next tap chooses. */
function comparison() {
  const button = element("button", "compare", label(state.picking || state.second !== null ? "compare_stop" : "compare"));
  button.type = "button";
  button.addEventListener("click", () => change({ picking: !state.picking && state.second === null, second: null }));
  if (state.picking) return [element("p", "hint", label("compare_hint")), button];
  if (state.second === null) return [button];
  const found = apart();
  const title = element("p", "profile-title", label("compared", { place: wordsOf(state.place), second: wordsOf(state.second) }));
  if (found === null) return [title, element("p", "", label("not_both_cells")), button];
  return [title, ...differenceWords(found, label("compared_numbers", { first: shownText(state.place), second: shownText(state.second) })), element("p", "hint", label("compare_many")), button];
}

const shownText = (place) => withUnit(published(column.value[openRow(place, state.slot)]));

function drawn2d(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/* The profile: dot and interval of a place in each slot; the shown one is marked. */
function profile(place) {
  const [width, height, left, top] = [300, 116, 40, 8];
  const found = data.slots.map((_, slot) => openRow(place, slot));
  const all = found.filter((row) => row !== null);
  if (!all.length) return element("p", "hint", label(data.value_columns.length > 1 ? "absent_cell" : "closed_cell"));
  // An unknown end is no place on the scale: its line runs to the edge.
  const known = all.flatMap((row) => [column.value[row], ...(unknown(row).low ? [] : [column.low[row]]), ...(unknown(row).high ? [] : [column.high[row]])]);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const step = (width - left) / data.slots.length;
  const y = (value) => top + (height - top - 20) * (1 - (value - low) / (high - low || 1));
  const words = all.map((row) => `${data.slots[slotOf(row)]}: ${range(row)}`);
  const svg = drawn2d("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "profile", "aria-label": `${label("profile")}. ${words.join("; ")}` });
  for (const value of data.value.signed && low < 0 && high > 0 ? [low, 0, high] : [low, high]) {
    const text = drawn2d("text", { x: left - 6, y: y(value) + 4, class: "end" });
    text.textContent = published(value);
    svg.append(drawn2d("line", { x1: left, x2: width, y1: y(value), y2: y(value), class: "grid" }), text);
  }
  found.forEach((row, slot) => {
    const x = left + step * (slot + 0.5);
    const group = drawn2d("g", { class: `slot${slot === state.slot ? " shown" : ""}${slot === state.against ? " against" : ""}` });
    const title = drawn2d("title", {});
    title.textContent = row === null ? `${data.slots[slot]}: ${label("not_published")}` : `${data.slots[slot]}: ${withUnit(published(column.value[row]))}, ${range(row)}`;
    group.append(title, drawn2d("rect", { x: x - step / 2, y: 0, width: step, height, class: "hit" }));
    if (row !== null) {
      group.classList.add(flagOf(row).replaceAll(" ", "-"));
      group.append(
        drawn2d("line", { x1: x, x2: x, y1: unknown(row).low ? y(low) : y(column.low[row]), y2: unknown(row).high ? 0 : y(column.high[row]), class: "span" }),
        drawn2d("circle", { cx: x, cy: y(column.value[row]), r: Math.max(2, Math.min(4, step / 3)), class: "dot" }),
      );
    }
    group.addEventListener("click", () => change({ slot }));
    svg.append(group);
  });
  [[0, "start"], [data.slots.length - 1, "last"]].forEach(([slot, kind]) => {
    const text = drawn2d("text", { x: kind === "start" ? left : width, y: height - 4, class: kind });
    text.textContent = data.slot_starts[slot].replace("T", " ");
    svg.append(text);
  });
  return svg;
}

/* The histogram of a cell: a bar and an interval for each bin; the one on the map is marked. */
function histogram(row) {
  const [width, height, left, top] = [300, 128, 40, 8];
  const { first, ends, unit } = data.bins;
  const bins = data.choices.slice(first, first + ends.length - 1);
  const at = (key) => bins.map((bin) => bin.columns[key][row]);
  const [value, low, high] = ["value", "low", "high"].map(at);
  const digits = bins[0].value.decimals;
  const most = Math.max(...high) || 1;
  const step = (width - left) / bins.length;
  const y = (share) => top + (height - top - 20) * (1 - share / most);
  const words = bins.map((_, bin) => label("histogram_bin", { low: ends[bin], high: ends[bin + 1], value: figure(value[bin], digits), least: figure(low[bin], digits), largest: figure(high[bin], digits) }));
  const title = label("histogram", { unit: unit ? ` in ${unit}` : "" });
  const svg = drawn2d("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "profile", "aria-label": `${title}. ${words.join("; ")}` });
  for (const share of [0, most]) {
    const text = drawn2d("text", { x: left - 6, y: y(share) + 4, class: "end" });
    text.textContent = figure(share, 2);
    svg.append(drawn2d("line", { x1: left, x2: width, y1: y(share), y2: y(share), class: "grid" }), text);
  }
  bins.forEach((_, bin) => {
    const x = left + step * (bin + 0.5);
    const group = drawn2d("g", { class: `bin${(state.statistic ?? 0) === first + bin ? " shown" : ""}` });
    const tag = drawn2d("title", {});
    tag.textContent = words[bin];
    group.append(
      tag,
      drawn2d("rect", { x: x - step / 2, y: 0, width: step, height, class: "hit" }),
      drawn2d("rect", { x: x - step * 0.4, y: y(value[bin]), width: step * 0.8, height: y(0) - y(value[bin]), class: "share" }),
      drawn2d("line", { x1: x, x2: x, y1: y(low[bin]), y2: y(high[bin]), class: "span" }),
    );
    group.addEventListener("click", () => chooseStatistic(first + bin));
    svg.append(group);
  });
  [[ends[0], left, "start"], [ends[ends.length - 1], width, "last"]].forEach(([end, x, kind]) => {
    const text = drawn2d("text", { x, y: height - 4, class: kind });
    text.textContent = end;
    svg.append(text);
  });
  return [element("p", "profile-title", title), svg];
}

/* The lowest and the highest good cell of the slot, or cell that changed; the extremes of all would
   be mostly noise. */
function extremes() {
  const good = data.names.map((_, place) => rowOf(place, state.slot))
    .filter((row) => row !== null && ["good", "higher", "lower"].includes(flagOf(row)) && column.value[row] !== null)
    .sort((a, b) => column.value[a] - column.value[b]);
  if (good.length < 3) return [];
  return [["lowest", good[0]], ["highest", good[good.length - 1]]].map(([name, row]) => {
    const line = element("p", "extreme", label(name, { amount: withUnit(published(column.value[row])), low: published(column.low[row]), high: published(column.high[row]) }));
    const button = element("button", "", wordsOf(data.hexagon[row]));
    button.type = "button";
    button.addEventListener("click", () => change({ place: data.hexagon[row] }));
    line.append(" ", button);
    return line;
  });
}

function drawReadout() {
  const card = byId("readout");
  const bar = byId("colour-bar");
  bar.replaceChildren();
  if (state.place === null) {
    card.replaceChildren(element("p", "hint", label("hint")), ...(state.against === null ? extremes() : []));
    return;
  }
  describe(state.place, card);
  if (column.number && state.against === null && openRow(state.place, state.slot) !== null) card.append(...comparison());
  if (data.slots.length > 1) card.append(element("p", "profile-title", label("profile")), profile(state.place));
  const row = openRow(state.place, state.slot);
  if (row === null || state.against !== null) return;
  if (data.bins) card.append(...histogram(row));
  const at = (value) => Math.max(0, Math.min(100, 100 * (value - data.colour.low) / (data.colour.high - data.colour.low)));
  const open = unknown(row);
  const interval = element("i");
  interval.style.left = (open.low ? 0 : at(column.low[row])) + "%";
  interval.style.right = (open.high ? 0 : 100 - at(column.high[row])) + "%";
  const dot = element("b");
  dot.style.left = at(column.value[row]) + "%";
  bar.append(interval, dot);
}

/* The controls of the slots, and the legend that belongs to what is shown. */
function showSlots() {
  if (data.slots.length < 2) return;
  const slider = byId("slot");
  slider.value = String(state.slot);
  slider.setAttribute("aria-valuetext", data.slots[state.slot]);
  byId("slot-name").textContent = data.slots[state.slot];
  byId("slot-before").disabled = state.slot === 0;
  byId("slot-after").disabled = state.slot === data.slots.length - 1;
  if (!byId("against")) return;
  byId("against").value = state.against === null ? "" : String(state.against);
  byId("legend-values").hidden = state.against !== null;
  byId("legend-difference").hidden = state.against === null;
  if (state.against === null) return;
  const most = differenceScale();
  byId("difference-low").textContent = most ? signed(-most) : "";
  byId("difference-high").textContent = most ? withUnit(signed(most)) : "";
  const found = data.names.map((_, place) => difference(place)).filter((one) => one !== null);
  byId("difference-count").textContent = label("difference_count", { sure: count(found.filter((one) => one.sure).length), count: count(found.length) });
}

function startReadout() {
  if (data.slots.length > 1) {
    const move = (by) => change({ slot: Math.max(0, Math.min(data.slots.length - 1, state.slot + by)) });
    byId("slot").addEventListener("input", (event) => change({ slot: Number(event.target.value) }));
    byId("slot-before").addEventListener("click", () => move(-1));
    byId("slot-after").addEventListener("click", () => move(1));
    byId("against")?.addEventListener("change", (event) => change({ against: event.target.value === "" ? null : Number(event.target.value) }));
  }
  state.listeners.push(() => { tip.hidden = true; pointed.place = null; showSlots(); drawReadout(); });
  showSlots();
  drawReadout();
}
