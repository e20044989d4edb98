// The live figure: w(s) beside e^s for chosen n and b, and a row of scores whose weights follow while one score is
// dragged. Plain SVG, no library. It fills every <div class="ssa-weights">.
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const ssa = (s, n, b) => Math.pow(1 + b * Math.abs(s), Math.sign(s) * n);

  function element(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  // log10 of a weight on a vertical axis from 10^-3 (y = 190) to 10^6 (y = 10).
  const curveY = (weight) => 190 - 20 * (Math.min(Math.max(Math.log10(weight), -3), 6) + 3);
  const curveX = (s) => 40 + 13 * (s + 5); // s from -5 to 15

  function drawCurves(svg, n, b) {
    svg.replaceChildren();
    for (const exponent of [-3, 0, 3, 6]) {
      const y = curveY(10 ** exponent);
      element(svg, "line", { x1: 40, x2: 300, y1: y, y2: y, class: "axis" });
      element(svg, "text", { x: 36, y: y + 4, "text-anchor": "end" }, `10^${exponent}`);
    }
    for (const s of [-5, 0, 5, 10, 15]) element(svg, "text", { x: curveX(s), y: 206, "text-anchor": "middle" }, s);
    const path = (weight) => {
      const points = [];
      for (let s = -5; s <= 15.001 && weight(s) <= 1e6; s += 0.1) points.push(`${curveX(s).toFixed(1)},${curveY(weight(s)).toFixed(1)}`);
      return points.join(" ");
    };
    element(svg, "polyline", { points: path(Math.exp), class: "line softmax" });
    element(svg, "polyline", { points: path((s) => ssa(s, n, b)), class: "line ssa" });
    element(svg, "text", { x: 310, y: 24 }, "e^s (softmax)").style.fill = "#b0552a";
    element(svg, "text", { x: 310, y: 40 }, "w(s) (SSA)").style.fill = "#2a6fb0";
    element(svg, "text", { x: 310, y: 206 }, "score s");
  }

  const share = (weights) => {
    const sum = weights.reduce((a, b) => a + b, 0);
    return weights.map((w) => w / sum);
  };

  // Scores from -5 (y = 120) to 25 (y = 10); the weights stand below as bars.
  const scoreY = (s) => 120 - (110 / 30) * (s + 5);

  function drawRow(svg, scores, n, b, onDrag) {
    svg.replaceChildren();
    const highest = Math.max(...scores);
    const softmax = share(scores.map((s) => Math.exp(s - highest)));
    const signed = share(scores.map((s) => ssa(s, n, b)));
    element(svg, "line", { x1: 20, x2: 420, y1: scoreY(0), y2: scoreY(0), class: "axis" });
    element(svg, "text", { x: 424, y: scoreY(0) + 4 }, "s = 0");
    element(svg, "line", { x1: 20, x2: 420, y1: 240, y2: 240, class: "axis" });
    element(svg, "text", { x: 424, y: 240 }, "weights");
    scores.forEach((s, i) => {
      const x = 50 + 72 * i;
      element(svg, "line", { x1: x, x2: x, y1: scoreY(0), y2: scoreY(s), class: "axis" });
      const last = i === scores.length - 1;
      const dot = element(svg, "circle", { cx: x, cy: scoreY(s), r: last ? 8 : 4, class: last ? "handle" : "" });
      element(svg, "text", { x: x + 11, y: scoreY(s) + 4 }, s.toFixed(1));
      if (last) onDrag(dot);
      [[softmax[i], "softmax", -16], [signed[i], "ssa", 2]].forEach(([weight, name, shift]) => {
        element(svg, "rect", { x: x + shift, width: 14, y: 240 - 90 * weight, height: 90 * weight, class: name });
        element(svg, "text", { x: x + shift, y: 254 }, (100 * weight).toFixed(0));
      });
    });
  }

  function slider(parent, name, least, most, step, value, onChange) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    const shown = document.createElement("output");
    Object.assign(input, { type: "range", min: least, max: most, step, value });
    input.setAttribute("aria-label", name);
    const show = () => (shown.textContent = ` ${name} = ${Number(input.value)}`);
    input.addEventListener("input", () => { show(); onChange(Number(input.value)); });
    show();
    label.append(input, shown);
    parent.appendChild(label);
  }

  function figure(box) {
    const state = { n: 1.5, b: 0.8, scores: [1, -1, -2, 0.5, 8] };
    const controls = document.createElement("div");
    const curves = document.createElementNS(SVG, "svg");
    const row = document.createElementNS(SVG, "svg");
    curves.setAttribute("viewBox", "0 0 420 212");
    row.setAttribute("viewBox", "0 0 480 260");
    curves.setAttribute("role", "img");
    curves.setAttribute("aria-label", "Weight against score, logarithmic: softmax exponential, SSA polynomial");
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "A row of five scores and their attention weights under softmax and SSA");
    const caption = document.createElement("p");
    caption.textContent =
      "Above: the weight of a score, on a logarithmic axis. Below: five scores and their attention weights in % (left " +
      "softmax, right SSA). Drag the large dot, or use the arrow keys on it.";
    box.append(controls, curves, row, caption);

    let dragging = false;
    const set = (value) => {
      state.scores[4] = Math.min(Math.max(value, -5), 25);
      draw();
    };
    const draw = () => {
      drawCurves(curves, state.n, state.b);
      drawRow(row, state.scores, state.n, state.b, (dot) => {
        dot.setAttribute("tabindex", "0");
        dot.setAttribute("role", "slider");
        dot.setAttribute("aria-label", "last score");
        dot.setAttribute("aria-valuenow", state.scores[4]);
        dot.addEventListener("pointerdown", (event) => { dragging = true; event.preventDefault(); });
        dot.addEventListener("keydown", (event) => {
          const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
          if (by === undefined) return;
          event.preventDefault();
          set(state.scores[4] + by);
          row.querySelector(".handle").focus();
        });
      });
    };
    window.addEventListener("pointermove", (event) => {
      if (!dragging) return;
      const place = row.getBoundingClientRect();
      const y = ((event.clientY - place.top) * 260) / place.height;
      set(((120 - y) * 30) / 110 - 5);
    });
    window.addEventListener("pointerup", () => (dragging = false));
    slider(controls, "n", 1, 8, 0.1, state.n, (value) => { state.n = value; draw(); });
    slider(controls, "b", 0.05, 3, 0.05, state.b, (value) => { state.b = value; draw(); });
    draw();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".ssa-weights").forEach(figure));
})();
