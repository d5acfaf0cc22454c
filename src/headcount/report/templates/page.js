for (const chart of document.querySelectorAll("[data-specification]")) {
  const specification = JSON.parse(document.getElementById(chart.dataset.specification).textContent);
  const { view } = await window.vegaEmbed(chart, specification, {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  });
  // The legend breaks into more rows where the width is small; only a second pass knows the height.
  const layOut = () => view.resize().runAsync();
  await layOut();
  window.addEventListener("resize", layOut);
}
