// SPDX-License-Identifier: Apache-2.0
// Draws the charts of the report page from the JSON block "data". Colours are read from the style
// sheet, and read again when the reader switches between light and dark or prints.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const faint = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");

  // Numbers as people read them.
  const grouped = (value) => value.toLocaleString("en-US");
  const short = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(2).replace(/\.?0+e/, "e");
    for (const [unit, name] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
      if (size >= unit) return +(value / unit).toPrecision(4) + " " + name;
    }
    return String(+value.toPrecision(6));
  };
  const bytes = (value) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; ++unit; }
    return (unit === 0 ? value : +value.toPrecision(3)) + " " + units[unit];
  };

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;

  // On hover: of every curve the point nearest to the pointer's x, whatever steps each curve kept.
  Chart.Interaction.modes.nearestStep = (chart, event) => {
    const x = chart.scales.x.getValueForPixel(event.x);
    return chart.getSortedVisibleDatasetMetas().flatMap((meta) => {
      const points = chart.data.datasets[meta.index].data;
      if (points.length === 0) return [];
      let low = 0, high = points.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (points[middle].x < x) low = middle + 1; else high = middle;
      }
      if (low > 0 && x - points[low - 1].x < points[low].x - x) --low;
      return [{ element: meta.data[low], datasetIndex: meta.index, index: low }];
    }).sort((a, b) => a.datasetIndex - b.datasetIndex);
  };

  // A thin line through the hovered step.
  const crosshair = {
    id: "crosshair",
    beforeDatasetsDraw(chart) {
      const active = chart.tooltip && chart.tooltip.getActiveElements();
      if (!active || active.length === 0) return;
      const { ctx, chartArea: area } = chart;
      ctx.save();
      ctx.strokeStyle = colour("--soft");
      ctx.globalAlpha = 0.5;
      ctx.beginPath();
      ctx.moveTo(active[0].element.x, area.top);
      ctx.lineTo(active[0].element.x, area.bottom);
      ctx.stroke();
      ctx.restore();
    },
  };

  const points = (name) => {
    const curve = data.curves[name];
    return curve ? curve.x.map((x, i) => ({ x, y: curve.y[i] })) : [];
  };

  // A curve is drawn in its colour; its raw form, if a smoothed one is there, faintly behind it.
  const line = (name, label, tint, options) => {
    const values = points(name);
    return values.length === 0 ? [] : [{
      label, data: values, tint, borderWidth: 2, pointRadius: values.length <= 40 ? 3 : 0,
      pointHoverRadius: 4, ...options,
    }];
  };
  const noisy = (name, label, tint) => {
    const calm = line(name + "_smooth", label + ", mean of ~" + data.window + " steps", tint, { pointRadius: 0 });
    if (calm.length === 0) return line(name, label, tint);
    return [...calm, ...line(name, label, tint, { alpha: 0.4, borderWidth: 1, pointRadius: 0, order: 1 })];
  };

  const axis = (title, type, format) => ({
    type,
    title: { display: true, text: title },
    border: { display: false },
    ticks: {
      maxRotation: 0, autoSkipPadding: 16,
      callback(value) {
        if (this.type === "logarithmic") {
          // 1, 2 and 5 of each decade while they fit; powers of ten alone over many decades.
          const lead = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
          const span = this.max / this.min;
          const shown = span > 1e4 ? [1] : span > 12 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 8];
          if (!shown.includes(Math.round(lead * 1e6) / 1e6)) return span < 3 ? format(value) : "";
        }
        if (value > 0 && this.max < 1e-3) return value.toExponential(2).replace(/\.?0+e/, "e");
        return format(value);
      },
    },
  });

  // Works on a chart and on the configuration of one that is yet to be made.
  const paint = (chart) => {
    const ink = colour("--ink"), soft = colour("--soft"), grid = colour("--grid");
    for (const set of chart.data.datasets) {
      const tint = colour(set.tint);
      set.borderColor = faint(tint, set.alpha ?? 1);
      set.backgroundColor = chart.options.indexAxis ? faint(tint, 0.85) : tint;
    }
    for (const scale of Object.values(chart.options.scales)) {
      scale.title.color = scale.ticks.color = soft;
      scale.grid = { ...scale.grid, color: grid, borderColor: grid };
    }
    const { legend, tooltip } = chart.options.plugins;
    legend.labels.color = ink;
    Object.assign(tooltip, {
      backgroundColor: colour("--card"), borderColor: colour("--line"), borderWidth: 1,
      titleColor: ink, bodyColor: ink, padding: 10,
    });
  };

  const draw = (id, config) => {
    paint(config);
    charts.push(new Chart(document.getElementById(id), config));
    return charts.at(-1);
  };

  const curveChart = (id, datasets, yTitle, yFormat = short, tooltipFormat = yFormat) => {
    const canvas = document.getElementById(id);
    if (datasets.length === 0) {
      canvas.parentElement.parentElement.hidden = true;
      return null;
    }
    return draw(id, {
      type: "line",
      data: { datasets },
      options: {
        animation: false, parsing: false, normalized: true, maintainAspectRatio: false,
        elements: { line: { borderJoinStyle: "round" } },
        interaction: { mode: "nearestStep", intersect: false },
        scales: { x: axis("step", "linear", short), y: axis(yTitle, "linear", yFormat) },
        plugins: {
          legend: {
            display: datasets.length > 1, align: "end",
            labels: {
              usePointStyle: true, pointStyle: "line", boxWidth: 26,
              sort: (a, b) => a.datasetIndex - b.datasetIndex,
            },
          },
          tooltip: {
            usePointStyle: true,
            callbacks: {
              title: (items) => items.length ? "step " + grouped(items[0].parsed.x) : "",
              label: (item) => {
                const own = item.parsed.x === item.chart.tooltip.dataPoints?.[0]?.parsed.x;
                return " " + item.dataset.label + ": " + tooltipFormat(item.parsed.y) +
                       (own ? "" : " (step " + grouped(item.parsed.x) + ")");
              },
              labelPointStyle: () => ({ pointStyle: "line", rotation: 0 }),
            },
          },
        },
      },
      plugins: [crosshair],
    });
  };

  const four = (value) => value.toFixed(4);
  const loss = curveChart("loss",
    [...noisy("loss", "training", "--first"), ...line("validation_loss", "validation", "--second", { order: -1 })],
    points("rewards/margins").length > 0 ? "loss (mean over pairs)" : "loss (nats per token)", short, four);
  const tints = ["--first", "--second", "--third", "--fourth"], dashes = [[], [6, 3], [2, 3]];
  const ofTask = "validation_loss/";
  curveChart("task_losses",
    Object.keys(data.curves).filter((name) => name.startsWith(ofTask)).flatMap((name, i) => line(
      name, name.slice(ofTask.length), tints[i % tints.length], { borderDash: dashes[Math.floor(i / tints.length)] })),
    "loss (nats per token)", short, four);
  curveChart("lr", line("lr", "learning rate", "--first"), "learning rate", short);
  curveChart("grad_norm", noisy("grad_norm", "gradient norm", "--first"), "gradient norm");
  curveChart("loss_scale", line("loss_scale", "loss scale", "--first"), "loss scale");
  curveChart("rewards",
    [...noisy("rewards/chosen", "chosen", "--first"), ...noisy("rewards/rejected", "rejected", "--second")], "reward");
  curveChart("accuracies",
    [...noisy("rewards/accuracies", "training", "--first"),
     ...line("validation_rewards/accuracies", "validation", "--second", { order: -1 })], "share of pairs");
  curveChart("tokens_per_second", noisy("tokens_per_second", "throughput", "--first"), "tokens per second");
  curveChart("mfu", noisy("mfu", "utilisation", "--first"), "utilisation (%)", (value) => short(value) + " %");
  if (data.ceiling_gflops) {
    document.getElementById("ceiling").textContent = "of " + short(data.ceiling_gflops) + " GFLOP/s in matrix products";
  }

  // A power of two that makes at most six steps of `top` bytes.
  const byteStep = (top) => 2 ** Math.max(0, Math.ceil(Math.log2(top / 6)));

  const classes = data.memory.filter((row) => row.name !== "total");
  if (classes.length > 0) {
    const bar = (key, tint) => ({
      label: key, tint, data: classes.map((row) => row[key]), borderRadius: 4, maxBarThickness: 16,
    });
    const top = Math.max(1, ...classes.flatMap((row) => [row.planned ?? 0, row.measured ?? 0]));
    draw("memory", {
      type: "bar",
      data: { labels: classes.map((row) => row.name), datasets: [bar("planned", "--first"), bar("measured", "--second")] },
      options: {
        animation: false, maintainAspectRatio: false, indexAxis: "y",
        interaction: { mode: "index", axis: "y", intersect: false },
        scales: {
          x: { title: { display: true, text: "bytes" }, beginAtZero: true, ticks: { callback: bytes, stepSize: byteStep(top), maxRotation: 0, autoSkipPadding: 16 } },
          y: { title: { display: false }, ticks: {}, grid: { display: false } },
        },
        plugins: {
          legend: { align: "end", labels: { usePointStyle: true, pointStyle: "rectRounded" } },
          tooltip: { callbacks: { label: (item) => " " + item.dataset.label + ": " + bytes(item.parsed.x) + " (" + grouped(item.parsed.x) + " bytes)" } },
        },
      },
    });
  }

  const lossRange = () => {
    const values = loss.data.datasets.flatMap((set) => set.data.map((point) => point.y)).filter((y) => y > 0);
    return [Math.min(...values) / 1.03, Math.max(...values) * 1.03];
  };
  for (const button of document.querySelectorAll("[data-axis]")) {
    button.addEventListener("click", () => {
      if (!loss) return;
      for (const other of button.parentElement.querySelectorAll("button")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      const scale = loss.options.scales[button.dataset.axis];
      scale.type = button.dataset.scale;
      if (button.dataset.axis === "y") {
        // Left to itself a logarithmic axis begins at a power of ten, far below the curve.
        const fit = scale.type === "logarithmic" ? lossRange() : [undefined, undefined];
        [scale.min, scale.max] = fit;
      }
      loss.update("none");
    });
  }
  const repaint = () => charts.forEach((chart) => { paint(chart); chart.update(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  matchMedia("print").addEventListener("change", repaint);
})();
