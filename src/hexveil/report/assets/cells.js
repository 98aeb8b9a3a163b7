/* What a place shows in the chosen slot: its number, or its difference from another slot. */

/* The class of a value among the colours of its grade. */
function classOf(value, colours) {
  const { low, high } = data.colour;
  const share = (value - low) / (high - low);
  return colours[Math.max(0, Math.min(colours.length - 1, Math.floor(share * colours.length)))];
}

/* The difference of a place between two slots, with the limits that both intervals leave it. */
function difference(place) {
  const [here, there] = [openRow(place, state.slot), openRow(place, state.against)];
  if (here === null || there === null) return null;
  const value = column.value[here] - column.value[there];
  const low = column.low[here] - column.high[there];
  const high = column.high[here] - column.low[there];
  return { value, low, high, sure: low > 0 || high < 0 };
}

/* The largest sure difference: the end of the scale of differences. */
function differenceScale() {
  let most = 0;
  for (let place = 0; place < data.names.length; place += 1) {
    const found = difference(place);
    if (found?.sure) most = Math.max(most, Math.abs(found.value));
  }
  return most;
}

/* Colour and mark of each place, or null where nothing is published. */
function appearance(palette) {
  if (state.against !== null) {
    const most = differenceScale();
    return data.names.map((_, place) => {
      const found = difference(place);
      if (found === null) return null;
      if (!found.sure) return { colour: palette.unsure[0], mark: "noise" };
      const step = Math.min(2, Math.floor(3 * Math.abs(found.value) / most));
      return { colour: palette.difference[found.value < 0 ? 2 - step : 3 + step], mark: "" };
    });
  }
  return data.names.map((_, place) => {
    const row = openRow(place, state.slot);
    if (row === null) return null;
    const flag = flagOf(row);
    if (flag === "cannot be told") return { colour: "none", mark: flag };
    const colours = flag === "higher" || flag === "lower" ? palette.difference : palette[flag];
    return { colour: classOf(column.value[row] ?? data.colour.low, colours), mark: flag };
  });
}
