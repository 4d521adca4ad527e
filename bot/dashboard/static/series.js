// Draws a nightly series with uPlot in place of the server's picture: zoom by dragging, values under the cursor.
(function () {
  "use strict";

  function color(name) {
    const probe = document.createElement("span");
    probe.className = name;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function uprights(places, stroke, dash) {
    return function (plot) {
      const left = plot.bbox.left, right = left + plot.bbox.width;
      plot.ctx.save();
      plot.ctx.strokeStyle = stroke;
      plot.ctx.setLineDash(dash);
      plot.ctx.lineWidth = 2;
      for (const place of places) {
        const x = plot.valToPos(plot.data[0][place], "x", true);
        if (x < left || x > right) continue;
        plot.ctx.beginPath();
        plot.ctx.moveTo(x, plot.bbox.top);
        plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
        plot.ctx.stroke();
      }
      plot.ctx.restore();
    };
  }

  function draw(figure) {
    const given = JSON.parse(figure.dataset.plot);
    const picture = figure.querySelector("svg");
    const width = figure.clientWidth, height = Math.max(220, Math.round(width * 0.36));
    const ink = color("soft"), line = color("line");
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const plot = new uPlot({
      width: width,
      height: height,
      tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "UTC"),
      series: [
        { value: "{YYYY}-{MM}-{DD}" },
        { label: figure.dataset.unit || "value", stroke: color("link"), width: 2, points: { size: 5 } },
        { label: "baseline", stroke: color("ink"), dash: [6, 4], points: { show: false } },
      ],
      axes: [axis, Object.assign({ size: 64 }, axis)],
      hooks: { draw: [uprights(given.points, color("unsure"), []), uprights(given.alarms, color("bad"), [3, 4])] },
    }, given.data, figure);
    const canvas = plot.root.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", picture.getAttribute("aria-label"));
    picture.remove();
    window.addEventListener("resize", function () {
      plot.setSize({ width: figure.clientWidth, height: height });
    });
  }

  document.querySelectorAll("figure[data-plot]").forEach(draw);
})();
