for (const chart of document.querySelectorAll("[data-specification]")) {
  const specification = JSON.parse(document.getElementById(chart.dataset.specification).textContent);
  window.vegaEmbed(chart, specification, {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  });
}
