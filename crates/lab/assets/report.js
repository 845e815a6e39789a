// Draws the charts of a report from the options that were written into the page.
"use strict";
(() => {
  const all = JSON.parse(document.getElementById("options").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Okabe and Ito's colours, which people of all colour vision tell apart; symbols and dashes say it again.
  const colours = { light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#946f00", "#56B4E9", "#333333"],
                    dark: ["#56B4E9", "#E69F00", "#2fc79a", "#CC79A7", "#F0E442", "#7aa7ff", "#dddddd"] };
  // By name: widths of texts are measured on a canvas, which inherits nothing. Within quotes of a picture, so with the others.
  const font = getComputedStyle(document.body).fontFamily.replaceAll('"', "'");
  const symbols = ["circle", "rect", "triangle", "diamond", "emptyCircle", "emptyRect", "emptyTriangle"];
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

  // Between the ends of the intervals, from each point to the next; a whisker where there is one point only.
  const band = (given, colour) => {
    const silent = { name: given.name, type: "custom", silent: true, tooltip: { show: false }, itemStyle: { color: colour }, z: 1 };
    if (given.data.length < 2) { return { ...silent, data: given.data, renderItem: whisker(colour), encode: { x: 0, y: [1, 2] } }; }
    const pieces = given.data.slice(1).map((to, at) => [...given.data[at], ...to]);
    const piece = (params, api) => ({ type: "polygon", style: { fill: colour, opacity: 0.16, stroke: "none" },
      shape: { points: [[0, 1], [3, 4], [3, 5], [0, 2]].map(([x, y]) => api.coord([api.value(x), api.value(y)])) } });
    return { ...silent, data: pieces, renderItem: piece, encode: { x: [0, 3], y: [1, 2, 4, 5] } };
  };

  const series = (given, palette) => {
    const colour = palette[given.style % palette.length];
    if (given.floor) {
      const ink = dark.matches ? "#e6ebf1" : "#1b2430";
      return { name: given.name, type: "line", data: given.data, symbol: "path://M0,4L10,4L10,6L0,6Z", symbolSize: [16, 2], itemStyle: { color: ink },
        lineStyle: { color: ink, width: 1.5, type: [6, 4] }, z: 1 };
    }
    if (given.band) { return band(given, colour); }
    if (given.whiskers) {
      return { name: given.name, type: "custom", data: given.data, renderItem: whisker(colour), itemStyle: { color: colour },
        encode: { x: 0, y: [1, 2] }, silent: true, tooltip: { show: false }, z: 1 };
    }
    return { name: given.name, type: given.type, data: given.data, symbol: symbols[given.style % symbols.length], symbolSize: 8,
      itemStyle: { color: colour }, lineStyle: { color: colour, width: 2, type: dashes[given.style % dashes.length] }, z: 2 };
  };

  const heat = (given) => {
    const ink = dark.matches ? "#e6ebf1" : "#1b2430", soft = dark.matches ? "#9aa7b5" : "#5a6675";
    const axis = (one, gap) => ({ type: "category", data: one.values, name: one.name, nameLocation: "middle", nameGap: gap,
      axisLabel: { color: soft }, nameTextStyle: { color: soft }, axisLine: { lineStyle: { color: soft } }, splitArea: { show: false } });
    const values = given.data.map((cell) => cell[2]);
    const place = (api) => [api.size([1, 1]), api.coord([api.value(0), api.value(1)])];
    // Run once: a dot in the corner. Not measured: a cross.
    const dot = (params, api) => {
      const [size, middle] = place(api), r = Math.max(1, Math.min(3, size[0] / 8, size[1] / 8));
      return { type: "circle", shape: { cx: middle[0] + size[0] / 2 - 3 * r, cy: middle[1] - size[1] / 2 + 3 * r, r }, style: { fill: "#ffffff", stroke: "#000000", lineWidth: 1 } };
    };
    const cross = (params, api) => {
      const [size, middle] = place(api), r = Math.max(1.5, Math.min(5, size[0] / 4, size[1] / 4));
      const line = (up) => ({ type: "line", shape: { x1: middle[0] - r, y1: middle[1] - r * up, x2: middle[0] + r, y2: middle[1] + r * up }, style: { stroke: soft, lineWidth: 1 } });
      return { type: "group", children: [line(1), line(-1)] };
    };
    const marks = (data, renderItem) => ({ type: "custom", data, renderItem, silent: true, tooltip: { show: false }, z: 3 });
    const frame = (params, api) => {
      const [size, middle] = place(api);
      return { type: "rect", shape: { x: middle[0] - size[0] / 2 + 2, y: middle[1] - size[1] / 2 + 2, width: size[0] - 4, height: size[1] - 4 },
        style: { fill: "none", stroke: dark.matches ? "#ffffff" : "#000000", lineWidth: 2 } };
    };
    return {
      aria: { enabled: true, label: { description: given.description } },
      animation: false, backgroundColor: "transparent", textStyle: { fontFamily: font },
      tooltip: { backgroundColor: dark.matches ? "#1a222b" : "#fff", textStyle: { color: ink },
        formatter: (p) => given.x.name + " " + given.x.values[p.value[0]] + ", " + given.y.name + " " + given.y.values[p.value[1]] + ": " + short(p.value[2]) + " " + given.unit },
      grid: { left: 36, right: 90, top: 16, bottom: 36, containLabel: true },
      xAxis: axis(given.x, 28), yAxis: axis(given.y, 40),
      // Viridis: light is much, and it reads the same for every colour vision and in grey.
      visualMap: { min: Math.min(...values), max: Math.max(...values), calculable: false, orient: "vertical", right: 0, top: "middle",
        text: [short(Math.max(...values)), short(Math.min(...values))], textStyle: { color: soft }, formatter: short,
        inRange: { color: ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"] } },
      series: [
        { type: "heatmap", data: given.data, label: { show: given.data.length <= 64, formatter: (p) => short(p.value[2]),
          color: "#fff", textBorderColor: "#000", textBorderWidth: 2 } },
        marks(given.unmeasured, cross), marks(given.once, dot), marks(given.best, frame),
      ],
    };
  };

  const forest = (given, width) => {
    const palette = colours[dark.matches ? "dark" : "light"], ink = dark.matches ? "#e6ebf1" : "#1b2430", soft = dark.matches ? "#9aa7b5" : "#5a6675";
    const rule = dark.matches ? "#2e3945" : "#e3e8ee";
    const bar = (params, api) => {
      const low = api.coord([api.value(2), api.value(0)]), high = api.coord([api.value(3), api.value(0)]), style = { stroke: palette[0], lineWidth: 2 };
      const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
      return { type: "group", children: [line(low[0], low[1], high[0], high[1]), line(low[0], low[1] - 4, low[0], low[1] + 4), line(high[0], high[1] - 4, high[0], high[1] + 4)] };
    };
    const floor = (params, api) => {
      const x = api.coord([api.value(0), 0])[0], { y, height } = params.coordSys;
      return { type: "group", children: [
        { type: "line", shape: { x1: x, y1: y, x2: x, y2: y + height }, style: { stroke: ink, lineWidth: 1.5, lineDash: [6, 4] } },
        { type: "text", style: { text: "floor", x, y: y - 4, align: "center", verticalAlign: "bottom", fill: soft, fontSize: 12 } }] };
    };
    // One round has no interval.
    const least = Math.min(...given.data.map((one) => one[2] ?? one[1]), given.floor ?? 1), most = Math.max(...given.data.map((one) => one[3] ?? one[1]), given.floor ?? 1, 1);
    const bars = given.data.filter((one) => one[2] !== null);
    return {
      aria: { enabled: true, label: { description: given.description } },
      animation: false, backgroundColor: "transparent", textStyle: { fontFamily: font },
      tooltip: { backgroundColor: dark.matches ? "#1a222b" : "#fff", textStyle: { color: ink },
        formatter: (p) => { const b = document.createElement("b"); b.textContent = given.names[p.value[0]];
          return b.outerHTML + "<br>" + p.value[1].toFixed(3) + (p.value[2] === null ? " [n/a]" : " [" + p.value[2].toFixed(3) + " to " + p.value[3].toFixed(3) + "]"); } },
      grid: { left: 8, right: 24, top: given.floor === null ? 8 : 24, bottom: 32, containLabel: true },
      xAxis: { type: "value", min: Math.max(0, Math.floor((least - 0.02) * 20) / 20), max: Math.ceil(most * 20) / 20, splitNumber: width < 500 ? 3 : 6, name: "rate / best", nameLocation: "middle", nameGap: 24,
        axisLabel: { color: soft }, nameTextStyle: { color: soft }, axisLine: { lineStyle: { color: soft } }, splitLine: { lineStyle: { color: rule } } },
      yAxis: { type: "category", data: given.names, axisLabel: { color: ink, width: Math.min(260, width * 0.42), overflow: "break", lineHeight: 14, fontSize: width < 500 ? 11 : 12, interval: 0 }, axisLine: { lineStyle: { color: soft } } },
      series: [
        { type: "custom", data: bars, renderItem: bar, encode: { x: [2, 3], y: 0 }, silent: true, tooltip: { show: false }, z: 1 },
        { type: "scatter", data: given.data, encode: { x: 1, y: 0 }, symbol: "rect", symbolSize: 9, itemStyle: { color: palette[1] }, z: 2 },
        { type: "custom", data: given.floor === null ? [] : [[given.floor, 0]], renderItem: floor, encode: { x: 0, y: 1 }, silent: true, tooltip: { show: false }, z: 1 },
      ],
    };
  };

  // A surface that was projected before: places are from 0 to 1, and its pieces come from back to front.
  const surface = (given) => {
    const ink = dark.matches ? "#e6ebf1" : "#1b2430", soft = dark.matches ? "#9aa7b5" : "#5a6675";
    const values = given.pieces.map((piece) => piece.value[0]);
    const piece = (params, api) => ({ type: "polygon", shape: { points: [1, 3, 5, 7].map((at) => api.coord([api.value(at), api.value(at + 1)])) },
      style: { fill: api.visual("color"), stroke: dark.matches ? "#000000" : "#ffffff", lineWidth: 0.5 } });
    const line = (params, api) => {
      const from = api.coord([api.value(0), api.value(1)]), to = api.coord([api.value(2), api.value(3)]);
      return { type: "line", shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: soft, lineWidth: 1 } };
    };
    const text = (params, api) => {
      const one = given.texts[params.dataIndex], at = api.coord([api.value(0), api.value(1)]);
      return { type: "text", style: { text: one.text, x: at[0], y: at[1], align: one.side, verticalAlign: "middle", fill: one.name ? ink : soft,
        fontSize: 12, fontWeight: one.name ? "bold" : "normal" } };
    };
    const hidden = { type: "value", min: 0, max: 1, show: false };
    const silent = { type: "custom", silent: true, tooltip: { show: false } };
    return {
      aria: { enabled: true, label: { description: given.description } },
      animation: false, backgroundColor: "transparent", textStyle: { fontFamily: font },
      tooltip: { backgroundColor: dark.matches ? "#1a222b" : "#fff", textStyle: { color: ink },
        formatter: (p) => { const b = document.createElement("b"); b.textContent = p.name; return b.outerHTML + "<br>" + short(p.value[0]) + " " + given.unit; } },
      grid: { left: 56, right: 96, top: 32, bottom: 16 }, xAxis: hidden, yAxis: hidden,
      visualMap: { min: Math.min(...values), max: Math.max(...values), dimension: 0, seriesIndex: 1, calculable: false, orient: "vertical", right: 0, top: "middle",
        text: [short(Math.max(...values)), short(Math.min(...values))], textStyle: { color: soft }, formatter: short,
        inRange: { color: ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"] } },
      series: [
        { ...silent, data: given.lines, renderItem: line, z: 1 },
        { type: "custom", data: given.pieces, renderItem: piece, encode: { x: [1, 3, 5, 7], y: [2, 4, 6, 8] }, z: 2 },
        { ...silent, data: given.texts.map((one) => one.value), renderItem: text, z: 3 },
        { type: "scatter", data: [given.best.at], symbol: "diamond", symbolSize: 12, silent: true, tooltip: { show: false }, z: 4,
          itemStyle: { color: "#D55E00", borderColor: "#ffffff", borderWidth: 1 },
          label: { show: true, position: "top", formatter: given.best.text, color: ink, textBorderColor: dark.matches ? "#12181f" : "#ffffff", textBorderWidth: 3 } },
      ],
    };
  };

  const options = (given, width) => {
    if (given.kind === "surface") { return surface(given); }
    if (given.kind === "forest") { return forest(given, width); }
    if (given.kind === "heat") { return heat(given); }
    const mode = dark.matches ? "dark" : "light", palette = colours[mode];
    const ink = dark.matches ? "#e6ebf1" : "#1b2430", soft = dark.matches ? "#9aa7b5" : "#5a6675", rule = dark.matches ? "#2e3945" : "#e3e8ee";
    const axis = { axisLabel: { color: soft }, nameTextStyle: { color: soft }, axisLine: { lineStyle: { color: soft } }, splitLine: { lineStyle: { color: rule } } };
    return {
      aria: { enabled: true, label: { description: given.description } },
      animation: false, backgroundColor: "transparent", textStyle: { fontFamily: font },
      legend: { type: "scroll", pageIconColor: ink, pageIconInactiveColor: rule, pageTextStyle: { color: soft }, left: 0, right: 8, textStyle: { color: ink, padding: [0, 12, 0, 2] }, top: 0, itemGap: 14, itemWidth: given.x.values ? 36 : 12 },
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
    const place = document.getElementById(id);
    if (all[id].kind === "forest") { place.style.height = 70 + 36 * all[id].names.length + "px"; }
    const chart = echarts.init(place, null, { renderer: "svg" });
    chart.setOption(options(all[id], chart.getWidth()));
    return [id, chart];
  });
  // Each chart as a file: SVG as it is drawn, PNG at twice its size.
  const save = (name, url) => { const link = document.createElement("a"); link.href = url; link.download = name; link.click(); };
  const button = (text, title, action) => {
    const one = document.createElement("button");
    one.type = "button"; one.textContent = text; one.setAttribute("aria-label", "Save as " + text + ": " + title);
    one.addEventListener("click", action);
    return one;
  };
  for (const [id, chart] of drawn) {
    const svg = () => chart.getDataURL({ type: "svg" });
    const png = () => {
      const picture = new Image(), size = [chart.getWidth(), chart.getHeight()];
      picture.onload = () => {
        const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
        [canvas.width, canvas.height] = size.map((length) => length * 2);
        pen.fillStyle = dark.matches ? "#12181f" : "#ffffff";
        pen.fillRect(0, 0, canvas.width, canvas.height);
        pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
        save(id + ".png", canvas.toDataURL("image/png"));
      };
      picture.src = svg();
    };
    const place = document.createElement("p"), title = document.getElementById(id).closest("section").querySelector("h2").textContent;
    place.className = "save";
    place.append(button("SVG", title, () => save(id + ".svg", svg())), button("PNG", title, png));
    document.getElementById(id).after(place);
  }
  const again = () => drawn.forEach(([id, chart]) => chart.setOption(options(all[id], chart.getWidth()), true));
  dark.addEventListener("change", again);
  window.addEventListener("resize", () => { drawn.forEach(([, chart]) => chart.resize()); again(); });
  document.documentElement.dataset.charts = drawn.length;
})();
