// Draws the charts of a report from the options that were written into the page.
"use strict";
(() => {
  const all = JSON.parse(document.getElementById("options").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Okabe and Ito's colours, which people of all colour vision tell apart; symbols and dashes say it again.
  const colours = { light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#946f00", "#56B4E9", "#333333"],
                    dark: ["#56B4E9", "#E69F00", "#2fc79a", "#CC79A7", "#F0E442", "#7aa7ff", "#dddddd"] };
  const symbols = ["circle", "rect", "triangle", "diamond", "pin", "arrow"];
  const dashes = ["solid", "dashed", "dotted", [8, 3, 2, 3]];
  const short = (v) => Math.abs(v) >= 1e6 ? (v / 1e6).toLocaleString("en", { maximumFractionDigits: 2 }) + " M"
    : Math.abs(v) >= 1e4 ? (v / 1e3).toLocaleString("en", { maximumFractionDigits: 1 }) + " k"
    : v.toLocaleString("en", { maximumFractionDigits: 2 });

  const whisker = (colour) => (params, api) => {
    const low = api.coord([api.value(0), api.value(1)]), high = api.coord([api.value(0), api.value(2)]);
    const style = { stroke: colour, lineWidth: 1.5, fill: "none" };
    const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
    return { type: "group", children: [line(low[0], low[1], high[0], high[1]),
      line(low[0] - 4, low[1], low[0] + 4, low[1]), line(high[0] - 4, high[1], high[0] + 4, high[1])] };
  };

  const series = (given, palette) => {
    const colour = palette[given.style % palette.length];
    if (given.whiskers) {
      return { name: given.name, type: "custom", data: given.data, renderItem: whisker(colour), itemStyle: { color: colour },
        encode: { x: 0, y: [1, 2] }, silent: true, tooltip: { show: false }, z: 1 };
    }
    return { name: given.name, type: given.type, data: given.data, symbol: symbols[given.style % symbols.length], symbolSize: 8,
      itemStyle: { color: colour }, lineStyle: { color: colour, width: 2, type: dashes[given.style % dashes.length] }, z: 2 };
  };

  const options = (given) => {
    const mode = dark.matches ? "dark" : "light", palette = colours[mode];
    const ink = dark.matches ? "#e6ebf1" : "#1b2430", soft = dark.matches ? "#9aa7b5" : "#5a6675", rule = dark.matches ? "#2e3945" : "#e3e8ee";
    const axis = { axisLabel: { color: soft }, nameTextStyle: { color: soft }, axisLine: { lineStyle: { color: soft } }, splitLine: { lineStyle: { color: rule } } };
    return {
      aria: { enabled: true, label: { description: given.description } },
      animation: false, backgroundColor: "transparent", textStyle: { fontFamily: "inherit" },
      legend: { textStyle: { color: ink, padding: [0, 12, 0, 2] }, top: 0, itemGap: 14, itemWidth: given.x.values ? 36 : 12 },
      tooltip: { trigger: "item", backgroundColor: dark.matches ? "#1a222b" : "#fff", textStyle: { color: ink },
        formatter: (p) => { const b = document.createElement("b"); b.textContent = p.name && p.seriesType === "scatter" ? p.name : p.seriesName;
          return b.outerHTML + "<br>" + short(p.value[1]) + " " + (given.y.name === "us" || given.y.name === "requests/s" ? given.y.name : ""); } },
      grid: { left: 8, right: 16, top: 56, bottom: 32, containLabel: true },
      xAxis: { ...axis, name: given.x.name, nameLocation: "middle", nameGap: 28, splitLine: { show: false },
        ...(given.x.values ? { type: "category", data: given.x.values, boundaryGap: true } : { type: "value", minInterval: 1 }) },
      yAxis: { ...axis, type: given.y.log ? "log" : "value", name: given.y.name, nameTextStyle: { color: soft, align: "left" },
        scale: !given.x.values && !given.y.zero,
        axisLabel: { color: soft, formatter: short } },
      series: given.series.map((one) => series(one, palette)),
    };
  };

  const drawn = Object.keys(all).map((id) => {
    const chart = echarts.init(document.getElementById(id), null, { renderer: "svg" });
    chart.setOption(options(all[id]));
    return [id, chart];
  });
  const again = () => drawn.forEach(([id, chart]) => chart.setOption(options(all[id]), true));
  dark.addEventListener("change", again);
  window.addEventListener("resize", () => drawn.forEach(([, chart]) => chart.resize()));
  document.documentElement.dataset.charts = drawn.length;
})();
