/* The choice among statistics: another one has numbers, digits, colours and a legend of its own. With
   several value columns each has the same statistics, one column after the other. */
const statistics = data.choices.length / data.value_columns.length;

function chooseStatistic(index) {
  const chosen = data.choices[index];
  Object.assign(column, chosen.columns);
  Object.assign(data, { value: chosen.value, colour: chosen.colour });
  if (data.value_columns.length > 1) chooseColumn(Math.floor(index / statistics));
  if (byId("statistic")) byId("statistic").value = String(index % statistics);
  for (const place of document.querySelectorAll(".chosen-statistic")) place.textContent = chosen.heading;
  for (const place of document.querySelectorAll(".graded-cells")) place.textContent = count(chosen.grades[Number(place.dataset.grade)]);
  byId("cells").tHead.querySelector('[data-column="value"] button').textContent = valueHeading();
  drawMarks(chosen);
  for (const place of document.querySelectorAll(".chosen-unit")) place.textContent = data.value.unit ? `, ${data.value.unit}` : "";
  change({ statistic: index });
}

/* The numbers under the colours of the legend. */
function drawMarks(chosen) {
  document.querySelector(".marks")?.replaceChildren(...chosen.marks.map(([at, text]) => {
    const mark = element("span", "", text);
    mark.style.left = at + "%";
    return mark;
  }));
}

/* Counts and bins of another value column, and its name in the list of statistics. */
function chooseColumn(number) {
  Object.assign(column, data.value_columns[number].counts);
  data.bins = data.value_columns[number].bins;
  byId("value-column").value = String(number);
  [...(byId("statistic")?.options ?? [])].forEach((option, at) => { option.textContent = data.choices[number * statistics + at].heading; });
}

function startChoice() {
  drawMarks(data.choices[0]);
  const chosen = (id) => Number(byId(id)?.value ?? 0);
  for (const id of ["statistic", "value-column"]) byId(id)?.addEventListener("change", () => chooseStatistic(chosen("value-column") * statistics + chosen("statistic")));
}
