/* In place of the map, for labels: a dot and the bar of its interval for each cell, the largest number
   first. With more cells than these there is the table alone. */
const MOST_BARS = 40;

function drawChart() {
  const drawn = Array.from({ length: rows }, (_, row) => row).filter((row) => column.value[row] !== null)
    .sort((a, b) => column.value[b] - column.value[a]);
  byId("chart").parentElement.hidden = !drawn.length || drawn.length > MOST_BARS;
  if (byId("chart").parentElement.hidden) return;
  const numbers = drawn.flatMap((row) => [column.value[row], column.low[row], column.high[row]]);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const at = (value) => (100 * (value - low)) / (high - low || 1);
  byId("chart").replaceChildren(...drawn.map((row) => {
    const [item, track, bar, dot] = [element("li", flagOf(row).replaceAll(" ", "-")), element("span", "track"), element("i"), element("b")];
    track.setAttribute("aria-hidden", "true");
    bar.style.left = at(column.low[row]) + "%";
    bar.style.width = at(column.high[row]) - at(column.low[row]) + "%";
    dot.style.left = at(column.value[row]) + "%";
    track.append(bar, dot);
    const name = heads.filter((head) => head.wide || head.key === "slot").map((head) => head.text(row)).join(" \u00b7 ");
    const cut = unknown(row).low || unknown(row).high;
    const said = withUnit(cut ? range(row) : `${published(column.value[row])} (${range(row)})`);
    item.append(element("span", "name", name), track, element("span", "said", said));
    return item;
  }));
  [low, high].forEach((end, place) => { byId("chart-ends").children[place].textContent = withUnit(published(end)); });
}

function startChart() {
  state.listeners.push((part) => { if ("statistic" in part) drawChart(); });
  drawChart();
}
