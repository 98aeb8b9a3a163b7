/* The address names slot, comparison and hexagons, so that a view can be sent to somebody. */
function readAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const [slot, against] = [data.slot_starts.indexOf(wanted.get("slot")), data.slot_starts.indexOf(wanted.get("against"))];
  const place = data.names.indexOf(wanted.get("cell"));
  const statistic = data.choices.findIndex((one) => one.heading === wanted.get("statistic"));
  if (statistic >= 0 && statistic !== (state.statistic ?? 0)) chooseStatistic(statistic);
  const second = data.names.indexOf(wanted.get("second"));
  change({ slot: slot < 0 ? state.slot : slot, against: against < 0 || !byId("against") ? null : against, place: place < 0 ? null : place, second: second < 0 || second === place || place < 0 ? null : second, picking: false });
}

function writeAddress() {
  const parts = new URLSearchParams();
  if (state.statistic) parts.set("statistic", data.choices[state.statistic].heading);
  if (data.slot) parts.set("slot", data.slot_starts[state.slot]);
  if (state.against !== null) parts.set("against", data.slot_starts[state.against]);
  if (state.place !== null) parts.set("cell", data.names[state.place]);
  if (state.second !== null) parts.set("second", data.names[state.second]);
  const text = "#" + parts.toString().replaceAll("%3A", ":");
  if (text !== location.hash) history.replaceState(null, "", text);
}

startScheme();
startTable();
startChoice();
if (byId("chart")) startChart();
if (data.map) {
  startReadout();
  startMap();
  if (location.hash.length > 1) readAddress();
  state.listeners.push(writeAddress);
  startShare();
  addEventListener("hashchange", readAddress);
}
/* In a page of others, such as that of an archive, the map comes first. */
if (self !== top && data.map) scrollTo(0, byId("map-title").parentElement.getBoundingClientRect().top);
requestAnimationFrame(() => requestAnimationFrame(() => { document.body.dataset.ready = "true"; }));
