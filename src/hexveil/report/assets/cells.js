/* What a place shows in the chosen slot: its number, its difference from another slot or place. */

/* The class of a value among the colours of its grade. */
function classOf(value, colours) {
  const { low, high } = data.colour;
  const share = (value - low) / (high - low);
  return colours[Math.max(0, Math.min(colours.length - 1, Math.floor(share * colours.length)))];
}

/* The difference of two rows, the first minus the second, with its 95% interval and whether the cells
   can be told apart: the rule and the numbers of report/cell_differences.py. */
function subtract(first, second) {
  const bias = column.bias ? column.bias[first] + column.bias[second] : 0;
  const value = column.number[first] - column.number[second];
  const low = value - Math.hypot(column.below[first], column.above[second]) - bias;
  const high = value + Math.hypot(column.above[first], column.below[second]) + bias;
  const most = data.value.largest ?? Infinity;
  const used = !column.used || (column.used[first] && column.used[second]);
  const [here, there] = [unknown(first), unknown(second)];
  return {
    value, low: Math.max(low, -most), high: Math.min(high, most), sure: Boolean(used) && (low > 0 || high < 0),
    unknown: { low: here.low || there.high, high: here.high || there.low },
  };
}

/* The difference of a place between the two slots. */
function difference(place) {
  const [here, there] = [openRow(place, state.slot), openRow(place, state.against)];
  return here === null || there === null ? null : subtract(here, there);
}

/* The difference of the chosen place from the second one. */
function apart() {
  const [here, there] = [openRow(state.place, state.slot), openRow(state.second, state.slot)];
  return here === null || there === null ? null : subtract(here, there);
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
