// "What if": a law of a lecture with sliders in place of its numbers. The formulas are the lecture's, and a test
// compares them with the Python ones. Each explorer is an entry of `laws`; the rest is shared.
"use strict";
(() => {
  const three = (x) => Number(x.toPrecision(3)).toLocaleString("en");
  const whole = (x) => Math.round(x).toLocaleString("en");
  const time = (s) => s < 1e-3 ? `${three(s * 1e6)} µs` : s < 1 ? `${three(s * 1e3)} ms` : s < 120 ? `${three(s)} s`
    : s < 7200 ? `${three(s / 60)} min` : `${three(s / 3600)} h`;
  const size = (n) => n < 1e3 ? `${three(n)} B` : n < 1e6 ? `${three(n / 1e3)} kB` : n < 1e9 ? `${three(n / 1e6)} MB` : `${three(n / 1e9)} GB`;
  const giga = (n, unit) => n < 1e9 ? `${three(n / 1e6)} M${unit}` : n < 1e12 ? `${three(n / 1e9)} G${unit}` : `${three(n / 1e12)} T${unit}`;
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

  // A convolution layer by its shape: N images, C channels of H × W pixels, K filters of k × k (lecture 01).
  // FLOPs, and bytes of float32 to and from memory: the least, with im2col, with shifted views.
  const layer = ({ N, H, W, C, K, k, stride, pad }) => {
    const [Ho, Wo] = [H, W].map((n) => Math.floor((n + 2 * pad - k) / stride) + 1);
    const x = 4 * N * H * W * C, w = 4 * k ** 2 * C * K, y = 4 * N * Ho * Wo * K, columns = 4 * N * Ho * Wo * k ** 2 * C;
    const view = k === 1 && stride === 1 && pad === 0; // the images are the matrix: nothing is copied
    return { out: [Ho, Wo, K], flops: 2 * N * Ho * Wo * K * k ** 2 * C, least: x + w + y,
      im2col: x + w + y + (view ? 0 : 2 * columns), shifted: w + (view ? columns : 3 * columns) + 4 * k ** 2 * y };
  };
  const roofline = (intensity, peak, bandwidth) => Math.min(peak, intensity * bandwidth);
  const layers = {
    "AlexNet conv1": { C: 3, H: 227, W: 227, K: 96, k: 11, stride: 4, pad: 0 },
    "AlexNet conv2": { C: 96, H: 27, W: 27, K: 256, k: 5, stride: 1, pad: 2 },
    "ResNet 3x3, 56": { C: 64, H: 56, W: 56, K: 64, k: 3, stride: 1, pad: 1 },
    "ResNet 3x3, 14": { C: 256, H: 14, W: 14, K: 256, k: 3, stride: 1, pad: 1 },
    "ResNet 1x1, 56": { C: 256, H: 56, W: 56, K: 64, k: 1, stride: 1, pad: 0 },
  };
  const machines = { // peak in FLOP/s and bandwidth in bytes/s, by data sheet; a page adds what it has measured
    "Core i7-960, 2009": [4 * 3.2e9 * 4 * 2, 32e9],
    "GTX 580, 2010": [512 * 1.544e9 * 2, 192.4e9],
  };
  const rungs = [["least", "at least: images, weights, output"], ["im2col", "im2col: columns, too"], ["shifted", "shifted: k² views and sums"]];

  // B: the noise scale, N: the images of an update. `factor`: how much k ranks of n images may raise the rate of
  // one (lecture 08). A step at its best rate gains in proportion to that rate (McCandlish et al. 2018, section 2):
  // so to a target it takes 1 + B/N times the steps of a very large batch, 1 + N/B times the images of a very small one.
  const factor = (B, n, k) => (1 + B / n) / (1 + B / (k * n));
  const steps = (B, N) => 1 + B / N;
  const examples = (B, N) => 1 + N / B;

  // Seconds of an image: w, d, a in disk, decode and augment, s in the step, c the step's own processor seconds;
  // k calls at a time on p cores (lecture 04).
  const pipelines = {
    "one after the other": ({ w, d, a, s }) => w + d + a + s,
    "parallel map": ({ w, d, a, s, k, p }) => Math.max(w / k, (d + a) / p) + s,
    "and prefetch": ({ w, d, a, s, c, k, p }) => Math.max(w / k, s, (d + a + c) / p),
    "and cache": ({ a, s, c, p }) => Math.max(s, (a + c) / p),
  };

  // The largest rate times curvature at which a parabola with gradients s updates old converges (lecture 09).
  const staleLimit = (s) => 2 * Math.sin(Math.PI / (2 * (2 * s + 1)));

  const onDevice = (v) => v.device === "on these cores" ? v : { ...v, c: 0 };

  const laws = {
    roofline: {
      title: "What if: a layer under the roofline",
      choices: [
        { name: "layer", label: "layer", options: Object.keys(layers), start: "AlexNet conv2", sets: (name) => layers[name], own: "of your own" },
        { name: "machine", label: "machine", options: Object.keys(machines), start: "GTX 580, 2010" },
      ],
      sliders: [
        { name: "N", label: "images N", from: 1, to: 512, start: 8, whole: true, show: whole, keeps: true },
        { name: "H", label: "height H", from: 11, to: 256, start: 27, whole: true, show: whole },
        { name: "W", label: "width W", from: 11, to: 256, start: 27, whole: true, show: whole },
        { name: "C", label: "channels C", from: 1, to: 2048, start: 96, whole: true, show: whole },
        { name: "K", label: "filters K", from: 1, to: 2048, start: 256, whole: true, show: whole },
        { name: "k", label: "kernel size k", from: 1, to: 11, start: 5, linear: true, show: (k) => `${k} × ${k}` },
        { name: "stride", label: "stride", from: 1, to: 4, start: 1, linear: true, show: three },
        { name: "pad", label: "padding", from: 0, to: 5, start: 2, linear: true, show: three },
      ],
      rows: (v) => {
        const found = layer(v), [peak, bandwidth] = machines[v.machine];
        return [["output of an image", found.out.map(whole).join(" × ")], ["FLOPs", giga(found.flops, "FLOP")],
          [`ridge of ${v.machine}`, `${three(peak / bandwidth)} FLOP/B`],
          ...rungs.map(([rung, name]) => {
            const at = found.flops / found[rung], roof = roofline(at, peak, bandwidth);
            return [name, `${three(at)} FLOP/B; ${roof < peak ? "bandwidth" : "peak"}: ${giga(roof, "FLOP/s")}, ${time(found.flops / roof)}`];
          })];
      },
      note: "The roof is what the peak or the bandwidth allows at most; the time follows from it. How fast a program is, "
        + "it does not say.",
      x: "arithmetic intensity, FLOP per byte", y: "attainable GFLOP/s",
      marks: (v) => rungs.map(([rung]) => {
        const found = layer(v), at = found.flops / found[rung];
        return [at, rung, roofline(at, ...machines[v.machine]) / 1e9];
      }),
      curves: () => Object.entries(machines).map(([name, roofs]) => [name, range(0.05, 5000).map((at) => [at, roofline(at, ...roofs) / 1e9])]),
    },
    noise: {
      title: "What if: noise scale and batch",
      sliders: [
        { name: "B", label: "noise scale, images", from: 5, to: 50000, start: 300, show: three },
        { name: "n", label: "images of a rank n", from: 1, to: 512, start: 32, whole: true, show: whole },
        { name: "k", label: "ranks k", from: 1, to: 1024, start: 32, whole: true, show: whole },
      ],
      rows: ({ B, n, k }) => [
        ["images of an update, kn", whole(k * n)],
        ["best rate, times that of one rank", `${three(factor(B, n, k))}×`],
        ["by the rules √k and k", `${three(Math.sqrt(k))}× and ${whole(k)}×`],
        ["updates to a target, of those of one rank", `${three(100 * steps(B, k * n) / steps(B, n))} %`],
        ["images to it, times those of one rank", `${three(examples(B, k * n) / examples(B, n))}×`],
        ["efficiency: times fewer updates, over k", `${three(100 * factor(B, n, k) / k)} %`],
      ],
      note: "A quadratic model, each step at its best rate: what it says of steps and images is McCandlish et al. "
        + "(2018, section 2), not a measurement. The noise scale itself grows during a training.",
      x: "images of an update", y: "times the least", at: ({ n, k }) => k * n,
      curves: ({ B }) => [["updates", range(1, 524288).map((N) => [N, steps(B, N)])], ["images", range(1, 524288).map((N) => [N, examples(B, N)])]],
    },
    pipeline: {
      title: "What if: the input pipeline",
      choices: [{ name: "device", label: "the step computes", options: ["on these cores", "on an accelerator: c = 0"], start: "on these cores" }],
      sliders: [
        { name: "w", label: "disk w, ms", from: 0.01, to: 50, start: 2, show: (v) => `${three(v)} ms` },
        { name: "d", label: "decode d, ms", from: 0.01, to: 50, start: 0.15, show: (v) => `${three(v)} ms` },
        { name: "a", label: "augment a, ms", from: 0.01, to: 50, start: 0.2, show: (v) => `${three(v)} ms` },
        { name: "s", label: "step s, ms", from: 0.01, to: 50, start: 0.8, show: (v) => `${three(v)} ms` },
        { name: "c", label: "its processor time c, ms", from: 0.01, to: 50, start: 1.4, show: (v) => `${three(v)} ms` },
        { name: "k", label: "calls at a time k", from: 1, to: 64, start: 16, whole: true, show: whole },
        { name: "p", label: "cores p", from: 1, to: 64, start: 2, whole: true, show: whole },
      ],
      rows: (v) => Object.entries(pipelines).map(([name, f]) => [name, `${time(f(onDevice(v)) / 1e3)} an image, ${three(1e3 / f(onDevice(v)))} images/s`]),
      x: "cores", y: "images a second", at: ({ p }) => p,
      curves: (v) => Object.entries(pipelines).map(([name, f]) => [name, range(1, 64).map((p) => [p, 1e3 / f({ ...onDevice(v), p })])]),
    },
    staleness: {
      title: "What if: the rate a stale gradient bears",
      sliders: [
        { name: "s", label: "staleness s", from: 0, to: 63, start: 7, linear: true, show: three },
        { name: "rate", label: "rate × curvature, ηλ", from: 0.005, to: 3, start: 0.1, show: three },
      ],
      rows: ({ s, rate }) => [
        ["largest ηλ of a parabola", three(staleLimit(s))],
        ["of that without staleness", `1/${three(staleLimit(0) / staleLimit(s))}`],
        ["the approximation π / (2s + 1)", three(Math.PI / (2 * s + 1))],
        [`with ηλ = ${three(rate)}, the parabola`, rate < staleLimit(s) ? "converges" : "does not converge"],
        ["from which staleness on it does not", rate >= 2 ? "any" : three(Math.floor((Math.PI / (2 * Math.asin(rate / 2)) - 1) / 2 + 1 - 1e-9))],
      ],
      note: "Plain SGD on a parabola without noise, each gradient exactly s updates old.",
      x: "2s + 1", y: "ηλ", at: ({ s }) => 2 * s + 1,
      curves: ({ rate }) => [["limit", range(1, 127).map((m) => [m, staleLimit((m - 1) / 2)])],
        ["π / (2s + 1)", range(1, 127).map((m) => [m, Math.PI / m])], ["your ηλ", [[1, rate], [127, rate]]]],
    },
    amdahl: {
      title: "What if: Amdahl and Gustafson",
      sliders: [
        { name: "s", label: "serial share s, %", from: 0.1, to: 60, start: 5, show: (v) => `${three(v)} %` },
        { name: "p", label: "ranks p", from: 1, to: 1024, start: 16, whole: true, show: whole },
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
        { name: "p", label: "ranks p", from: 2, to: 1024, start: 64, whole: true, show: whole },
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
  window.whatIf = { layer, roofline, shapeOf: (name) => layers[name], machineOf: (name) => machines[name], factor, steps, examples, pipelines, staleLimit, amdahl, gustafson, ring, tree, halving, young, daly, best, goodput }; // for the test

  const SVG = "http://www.w3.org/2000/svg", H = 280, LEFT = 74, BOTTOM = 44, TOP = 14;
  const element = (name, fields, words) => {
    const made = document.createElementNS(SVG, name);
    for (const [field, value] of Object.entries(fields)) made.setAttribute(field, value);
    if (words) made.textContent = words;
    return made;
  };
  // The curves, both axes logarithmic, with a line at the sliders' own place; the table says it in words.
  function draw(svg, law, values) {
    // As wide as its place, so that letters keep their size; a narrow one has the names inside.
    const W = Math.max(280, Math.min(640, Math.round(svg.parentElement.clientWidth - 36))), narrow = W < 520, RIGHT = narrow ? 8 : 150;
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const curves = law.curves(values).map(([name, points]) => [name, points.filter(([, y]) => y > 1e-9)]);
    const all = curves.flatMap(([, points]) => points);
    const ends = (axis) => [Math.min(...all.map((p) => p[axis])), Math.max(...all.map((p) => p[axis]))].map(Math.log10);
    const [x0, x1] = ends(0), [y0, top] = ends(1), y1 = Math.max(top, y0 + 0.1);
    const X = (x) => LEFT + (Math.log10(x) - x0) / (x1 - x0) * (W - LEFT - RIGHT);
    const Y = (y) => H - BOTTOM - (Math.log10(y) - y0) / (y1 - y0) * (H - BOTTOM - TOP);
    const dashes = ["", "7 4", "2 4", "10 3 2 3"];
    svg.replaceChildren();
    svg.append(element("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - BOTTOM - TOP, class: "frame" }));
    for (const [from, to, axis] of [[x0, x1, "x"], [y0, y1, "y"]]) {
      const every = Math.max(1, Math.ceil((to - from) / (narrow ? 4 : 6)));
      const between = to - from < 1.5 ? [1, 2, 5] : [1]; // little more than a power of ten: its parts, too
      for (let d = between.length > 1 ? Math.floor(from) : Math.ceil(from - 1e-9); d <= to + 1e-9; d += every) for (const part of between) {
        const value = part * 10 ** d, words = Math.abs(d) < 4 ? String(Number(value.toPrecision(1))) : `${part}e${d}`;
        if (Math.log10(value) < from - 1e-9 || Math.log10(value) > to + 1e-9) continue;
        svg.append(axis === "x" ? element("text", { x: X(value), y: H - BOTTOM + 16, "text-anchor": "middle" }, words)
          : element("text", { x: LEFT - 6, y: Y(value) + 4, "text-anchor": "end" }, words));
      }
    }
    svg.append(element("text", { x: (LEFT + W - RIGHT) / 2, y: H - 8, "text-anchor": "middle" }, law.x));
    svg.append(element("text", { transform: `translate(14 ${H / 2}) rotate(-90)`, "text-anchor": "middle" }, law.y));
    const labels = curves.map(([name, points], i) => ({ name, y: Y(points.at(-1)[1]) + 4, i })).sort((a, b) => a.y - b.y);
    labels.forEach((label, i) => { if (i) label.y = Math.max(label.y, labels[i - 1].y + 15); });
    for (const label of labels) svg.append(element("text", narrow
      ? { x: W - RIGHT - 6, y: Math.max(label.y - 9, TOP + 14), "text-anchor": "end" } : { x: W - RIGHT + 6, y: label.y }, label.name));
    curves.forEach(([, points], i) => svg.append(element("polyline", {
      points: points.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" "), class: "curve", "stroke-dasharray": dashes[i] })));
    const here = law.marks ? law.marks(values) : [[law.at(values)]];
    here.forEach(([at, name, y], i) => {
      if (Math.log10(at) < x0 || Math.log10(at) > x1) return;
      svg.append(element("line", { x1: X(at), x2: X(at), y1: TOP, y2: H - BOTTOM, class: "here" }));
      if (y) svg.append(element("circle", { cx: X(at), cy: Y(y), r: 5, class: "here" }));
      if (name) svg.append(element("text", { x: X(at) + 5, y: H - BOTTOM - 8 - 15 * i }, name));
    });
  }

  const make = (tag, words = "", fields = {}) => Object.assign(document.createElement(tag), { textContent: words }, fields);
  for (const place of document.querySelectorAll(".explorer")) {
    if (place.dataset.machine) {
      const { name, peak, bandwidth } = JSON.parse(place.dataset.machine);
      machines[name] = [peak, bandwidth];
      laws.roofline.choices[1].options.push(name);
    }
    const law = laws[place.dataset.law];
    const values = {}, sliders = {};
    const svg = element("svg", { "aria-hidden": "true", focusable: "false" });
    const table = make("table");
    const update = () => {
      table.replaceChildren(...law.rows(values).map(([name, value]) => {
        const row = make("tr");
        row.append(make("th", name, { scope: "row" }), make("td", value));
        return row;
      }));
      draw(svg, law, values);
    };
    place.append(make("h3", law.title));
    const own = []; // called when a slider is moved by hand: what was chosen is no longer what is shown
    for (const choice of law.choices ?? []) {
      const label = make("label"), select = make("select");
      select.append(...choice.options.map((name) => new Option(name, name)));
      values[choice.name] = select.value = choice.start;
      if (choice.own) {
        select.append(new Option(choice.own, ""));
        own.push(() => { select.value = ""; });
      }
      select.addEventListener("change", () => {
        values[choice.name] = select.value;
        for (const [name, value] of Object.entries(choice.sets?.(select.value) ?? {})) sliders[name](value);
        update();
      });
      label.append(make("span", choice.label), select);
      place.append(label);
    }
    for (const slider of law.sliders) {
      const label = make("label"), shown = make("output");
      shown.setAttribute("aria-live", "off"); // the slider itself says its value
      // The slider's 0 to 1000 are the logarithm of the number, unless it is linear: then it is the number.
      const { from, to } = slider;
      const input = make("input", "", { type: "range", min: slider.linear ? from : 0, max: slider.linear ? to : 1000 });
      const take = (value) => {
        values[slider.name] = slider.whole ? Math.round(value) : value;
        shown.value = slider.show(values[slider.name]);
        input.setAttribute("aria-valuetext", shown.value);
      };
      sliders[slider.name] = (value) => {
        input.value = slider.linear ? value : Math.round(1000 * Math.log(value / from) / Math.log(to / from));
        take(value);
      };
      input.addEventListener("input", () => {
        take(slider.linear ? Number(input.value) : from * (to / from) ** (input.value / 1000));
        if (!slider.keeps) own.forEach((forget) => forget());
        update();
      });
      sliders[slider.name](slider.start);
      label.append(make("span", slider.label), input, shown);
      place.append(label);
    }
    place.append(table, svg);
    if (law.note) place.append(make("p", law.note));
    update();
    addEventListener("resize", () => draw(svg, law, values));
  }
})();
