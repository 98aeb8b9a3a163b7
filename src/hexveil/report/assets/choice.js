/* The choice among statistics: another one has numbers, digits, colours and a legend of its own. */
function chooseStatistic(index) {
  const chosen = data.choices[index];
  Object.assign(column, chosen.columns);
  Object.assign(data, { value: chosen.value, colour: chosen.colour });
  byId("statistic").value = String(index);
  for (const place of document.querySelectorAll(".chosen-statistic")) place.textContent = chosen.heading;
  for (const place of document.querySelectorAll(".graded-cells")) place.textContent = count(chosen.grades[Number(place.dataset.grade)]);
  byId("cells").tHead.querySelector('[data-column="value"] button').textContent = `${data.value.name} ${data.value.unit}`.trim();
  document.querySelector(".marks")?.replaceChildren(...chosen.marks.map(([at, text]) => {
    const mark = element("span", "", text);
    mark.style.left = at + "%";
    return mark;
  }));
  for (const place of document.querySelectorAll(".chosen-unit")) place.textContent = data.value.unit ? `, ${data.value.unit}` : "";
  // The bars are those of the first statistic.
  const bars = byId("chart")?.closest("section");
  if (bars) bars.hidden = index !== 0;
  change({ statistic: index });
}

function startChoice() {
  byId("statistic")?.addEventListener("change", (event) => chooseStatistic(Number(event.target.value)));
}
