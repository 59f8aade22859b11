// "What if": a law of a lecture with sliders in place of its numbers. The formulas are the lecture's, and a test
// compares them with the Python ones. Each explorer is an entry of `laws`; the rest is shared.
"use strict";
(() => {
  const three = (x) => Number(x.toPrecision(3)).toLocaleString("en");
  const time = (s) => s < 1e-3 ? `${three(s * 1e6)} µs` : s < 1 ? `${three(s * 1e3)} ms` : s < 120 ? `${three(s)} s`
    : s < 7200 ? `${three(s / 60)} min` : `${three(s / 3600)} h`;
  const size = (n) => n < 1e3 ? `${three(n)} B` : n < 1e6 ? `${three(n / 1e3)} kB` : n < 1e9 ? `${three(n / 1e6)} MB` : `${three(n / 1e9)} GB`;
  const range = (from, to, n = 80) => Array.from({ length: n + 1 }, (_, i) => from * (to / from) ** (i / n));

  const amdahl = (s, p) => 1 / (s + (1 - s) / p);
  const gustafson = (s, p) => s + (1 - s) * p;

  // p ranks, n bytes, α in s, β in s a byte; addition costs nothing here (cluster/network/closed_forms.py).
  const ring = (p, n, alpha, beta) => 2 * (p - 1) * (alpha + n / p * beta);
  const tree = (p, n, alpha, beta) => 2 * Math.ceil(Math.log2(p)) * (alpha + n * beta);
  const halving = (p, n, alpha, beta) => {
    const k = Math.floor(Math.log2(p)), parts = Array.from({ length: k }, (_, i) => n / 2 ** (i + 1));
    if (p !== 2 ** k) parts.push(n);
    return parts.reduce((sum, part) => sum + 2 * (alpha + part * beta), 0);
  };

  // C, M, R: a checkpoint, between failures, a restart; all in one unit (lecture 10).
  const young = (C, M) => Math.sqrt(2 * C * M);
  const daly = (C, M) => {
    const x = Math.sqrt(C / (2 * M));
    return C < 2 * M ? Math.sqrt(2 * C * M) * (1 + x / 3 + x ** 2 / 9) - C : M;
  };
  const best = (C, M) => {
    let tau = Math.min(young(C, M), M);
    for (let i = 0; i < 2000; i++) tau = M * (1 - Math.exp(-(tau + C) / M));
    return tau;
  };
  const goodput = (tau, C, M, R) => tau / (M * Math.exp(R / M) * Math.expm1((tau + C) / M));

  const laws = {
    amdahl: {
      title: "What if: Amdahl and Gustafson",
      sliders: [
        { name: "s", label: "serial share s, %", from: 0.1, to: 60, start: 5, show: (v) => `${three(v)} %` },
        { name: "p", label: "ranks p", from: 1, to: 1024, start: 16, whole: true, show: three },
      ],
      rows: ({ s, p }) => [
        ["speed-up by Amdahl, the work stays", `${three(amdahl(s / 100, p))}×`],
        ["its limit, 1/s", `${three(100 / s)}×`],
        ["efficiency", `${three(100 * amdahl(s / 100, p) / p)} %`],
        ["scaled speed-up by Gustafson, s of the time on p ranks", `${three(gustafson(s / 100, p))}×`],
      ],
      x: "ranks", y: "speed-up", at: ({ p }) => p,
      curves: ({ s }) => [["Amdahl", range(1, 1024).map((p) => [p, amdahl(s / 100, p)])],
        ["Gustafson", range(1, 1024).map((p) => [p, gustafson(s / 100, p)])]],
    },
    allreduce: {
      title: "What if: ring against tree",
      sliders: [
        { name: "p", label: "ranks p", from: 2, to: 1024, start: 64, whole: true, show: three },
        { name: "n", label: "bytes n", from: 64, to: 1e9, start: 1e8, whole: true, show: size },
        { name: "alpha", label: "latency α, µs", from: 0.5, to: 500, start: 20, show: (v) => `${three(v)} µs` },
        { name: "rate", label: "bandwidth 1/β, GB/s", from: 0.01, to: 400, start: 6.25, show: (v) => `${three(v)} GB/s` },
      ],
      rows: ({ p, n, alpha, rate }) => [["ring", ring], ["tree", tree], ["halving-doubling", halving]].map(
        ([name, f]) => [name, time(f(p, n, alpha * 1e-6, 1e-9 / rate))]),
      x: "bytes", y: "seconds", at: ({ n }) => n,
      curves: ({ p, alpha, rate }) => [["ring", ring], ["tree", tree], ["halving-doubling", halving]].map(
        ([name, f]) => [name, range(64, 1e9).map((n) => [n, f(p, n, alpha * 1e-6, 1e-9 / rate)])]),
    },
    checkpoints: {
      title: "What if: how often to save",
      sliders: [
        { name: "C", label: "a checkpoint C, minutes", from: 0.05, to: 120, start: 2, show: (v) => time(60 * v) },
        { name: "M", label: "between failures M, hours", from: 0.2, to: 2000, start: 8, show: (v) => time(3600 * v) },
        { name: "R", label: "a restart R, minutes", from: 0.1, to: 120, start: 10, show: (v) => time(60 * v) },
      ],
      rows: ({ C, M, R }) => [["Young", young], ["Daly", daly], ["exact", best]].map(([name, f]) => {
        const tau = f(C, 60 * M);
        return [`best interval, ${name}`, `${time(60 * tau)}, goodput ${three(100 * goodput(tau, C, 60 * M, R))} %`];
      }),
      x: "interval, minutes", y: "goodput", at: ({ C, M }) => best(C, 60 * M),
      curves: ({ C, M, R }) => [["goodput", range(0.1, 6000).map((tau) => [tau, goodput(tau, C, 60 * M, R)])
        .filter(([, share]) => share > 0.01)]],
    },
  };
  window.whatIf = { amdahl, gustafson, ring, tree, halving, young, daly, best, goodput }; // for the test

  const SVG = "http://www.w3.org/2000/svg", W = 640, H = 280, LEFT = 74, BOTTOM = 44, TOP = 14, RIGHT = 130;
  const element = (name, fields, words) => {
    const made = document.createElementNS(SVG, name);
    for (const [field, value] of Object.entries(fields)) made.setAttribute(field, value);
    if (words) made.textContent = words;
    return made;
  };
  // The curves, both axes logarithmic, with a line at the sliders' own place; the table says it in words.
  function draw(svg, law, values) {
    const curves = law.curves(values).map(([name, points]) => [name, points.filter(([, y]) => y > 1e-9)]);
    const all = curves.flatMap(([, points]) => points);
    const ends = (axis) => [Math.min(...all.map((p) => p[axis])), Math.max(...all.map((p) => p[axis]))].map(Math.log10);
    const [x0, x1] = ends(0), [y0, top] = ends(1), y1 = Math.max(top, y0 + 0.1);
    const X = (x) => LEFT + (Math.log10(x) - x0) / (x1 - x0) * (W - LEFT - RIGHT);
    const Y = (y) => H - BOTTOM - (Math.log10(y) - y0) / (y1 - y0) * (H - BOTTOM - TOP);
    const dashes = ["", "7 4", "2 4"];
    svg.replaceChildren();
    svg.append(element("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - BOTTOM - TOP, class: "frame" }));
    for (const [from, to, axis] of [[x0, x1, "x"], [y0, y1, "y"]]) {
      const every = Math.max(1, Math.ceil((to - from) / 6));
      for (let d = Math.ceil(from - 1e-9); d <= to + 1e-9; d += every) {
        const words = Math.abs(d) < 4 ? String(Number((10 ** d).toPrecision(1))) : `1e${d}`;
        svg.append(axis === "x" ? element("text", { x: X(10 ** d), y: H - BOTTOM + 16, "text-anchor": "middle" }, words)
          : element("text", { x: LEFT - 6, y: Y(10 ** d) + 4, "text-anchor": "end" }, words));
      }
    }
    svg.append(element("text", { x: (LEFT + W - RIGHT) / 2, y: H - 8, "text-anchor": "middle" }, law.x));
    svg.append(element("text", { transform: `translate(14 ${H / 2}) rotate(-90)`, "text-anchor": "middle" }, law.y));
    const labels = curves.map(([name, points], i) => ({ name, y: Y(points.at(-1)[1]) + 4, i })).sort((a, b) => a.y - b.y);
    labels.forEach((label, i) => { if (i) label.y = Math.max(label.y, labels[i - 1].y + 15); });
    for (const label of labels) svg.append(element("text", { x: W - RIGHT + 6, y: label.y }, label.name));
    curves.forEach(([, points], i) => svg.append(element("polyline", {
      points: points.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" "), class: "curve", "stroke-dasharray": dashes[i] })));
    const at = law.at(values);
    if (Math.log10(at) >= x0 && Math.log10(at) <= x1) svg.append(element("line", { x1: X(at), x2: X(at), y1: TOP, y2: H - BOTTOM, class: "here" }));
  }

  for (const place of document.querySelectorAll(".explorer")) {
    const law = laws[place.dataset.law];
    const values = {};
    const title = Object.assign(document.createElement("h3"), { textContent: law.title });
    const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, "aria-hidden": "true", focusable: "false" });
    const table = document.createElement("table");
    const update = () => {
      table.replaceChildren(...law.rows(values).map(([name, value]) => {
        const row = document.createElement("tr");
        row.append(Object.assign(document.createElement("th"), { textContent: name, scope: "row" }),
          Object.assign(document.createElement("td"), { textContent: value }));
        return row;
      }));
      draw(svg, law, values);
    };
    place.append(title);
    for (const slider of law.sliders) {
      const label = document.createElement("label"), shown = document.createElement("output");
      shown.setAttribute("aria-live", "off"); // the slider itself says its value
      // The slider's 0 to 1000 are the logarithm of the number.
      const input = Object.assign(document.createElement("input"), { type: "range", min: 0, max: 1000 });
      input.value = Math.round(1000 * Math.log(slider.start / slider.from) / Math.log(slider.to / slider.from));
      const take = (value) => {
        values[slider.name] = slider.whole ? Math.round(value) : value;
        shown.value = slider.show(values[slider.name]);
        input.setAttribute("aria-valuetext", shown.value);
      };
      input.addEventListener("input", () => {
        take(slider.from * (slider.to / slider.from) ** (input.value / 1000));
        update();
      });
      take(slider.start);
      label.append(Object.assign(document.createElement("span"), { textContent: slider.label }), input, shown);
      place.append(label);
    }
    place.append(table, svg);
    update();
  }
})();
