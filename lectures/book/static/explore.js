// "What if": a law of a lecture with sliders instead of its numbers. The formulas are the lecture's, and a
// test compares them with the Python ones. Each widget is an entry of `laws`; the rest is shared.
"use strict";
(() => {
  const three = (x) => Number(x.toPrecision(3)).toLocaleString("en");
  const whole = (x) => Math.round(x).toLocaleString("en");
  const time = (s) => s < 1e-3 ? `${three(s * 1e6)} µs` : s < 1 ? `${three(s * 1e3)} ms` : s < 120 ? `${three(s)} s`
    : s < 7200 ? `${three(s / 60)} min` : `${three(s / 3600)} h`;
  const size = (n) => n < 1e3 ? `${three(n)} B` : n < 1e6 ? `${three(n / 1e3)} kB` : n < 1e9 ? `${three(n / 1e6)} MB` : `${three(n / 1e9)} GB`;
  const giga = (n, unit) => n < 1e9 ? `${three(n / 1e6)} M${unit}` : n < 1e12 ? `${three(n / 1e9)} G${unit}` : `${three(n / 1e12)} T${unit}`;
  const many = (n) => n < 1e3 ? whole(n) : n < 1e6 ? `${three(n / 1e3)} k` : n < 1e9 ? `${three(n / 1e6)} M` : `${three(n / 1e9)} G`;
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

  // C, M, R: times of a checkpoint, between failures, and of a restart, all in one unit (lecture 10).
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

  // A layer of `size` parameters in 2 bytes, on p GPUs with links of `rate` bytes/s; c, g: seconds of its forward pass
  // and of its gather; all layers are equal (lecture 11).
  const gatherTime = (size, p, rate, alpha) => alpha + 2 * size * (p - 1) / p / rate;
  const shardedStep = (layers, c, g) => g + layers * Math.max(c, g) + 2 * Math.max(2 * c, g) + (layers - 2) * Math.max(2 * c, 2 * g) + g;

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
  const SHARDED = 32; // layers
  const rungs = [["least", "at least: images, weights, output"], ["im2col", "im2col: columns, too"], ["shifted", "shifted: k² views and sums"]];

  // B: the noise scale. N: the global batch size. `factor`: how much the learning rate of k ranks of n
  // images may exceed one rank's (lecture 08). A step at its best learning rate gains in proportion to that
  // rate (McCandlish et al. 2018, section 2). To a target it therefore takes 1 + B/N times the steps of a
  // very large batch, and 1 + N/B times the images of a very small one.
  const factor = (B, n, k) => (1 + B / n) / (1 + B / (k * n));
  const steps = (B, N) => 1 + B / N;
  const examples = (B, N) => 1 + N / B;

  // Seconds per image: w, d, a for disk, decode and augment, s for the step, c the step's CPU seconds; k
  // calls at a time on p cores (lecture 04).
  const pipelines = {
    "one after the other": ({ w, d, a, s }) => w + d + a + s,
    "parallel map": ({ w, d, a, s, k, p }) => Math.max(w / k, (d + a) / p) + s,
    "and prefetch": ({ w, d, a, s, c, k, p }) => Math.max(w / k, s, (d + a + c) / p),
    "and cache": ({ a, s, c, p }) => Math.max(s, (a + c) / p),
  };

  // The largest product of learning rate and curvature for which a parabola with gradients s updates old
  // converges (lecture 09).
  const staleLimit = (s) => 2 * Math.sin(Math.PI / (2 * (2 * s + 1)));

  // SGD with momentum m (lecture 02: v ← m v − η g, w ← w + v) on a valley, a parabola with a separate
  // curvature in each direction, starting from 1 in each. It returns the weights before some updates. A
  // single direction follows the recurrence w' = (1 + m − ηλ) w − m w_before, so each update multiplies it
  // by a root of r² − (1 + m − ηλ) r + m.
  const descent = (rate, m, curvatures, updates) => {
    let w = curvatures.map(() => 1), v = curvatures.map(() => 0);
    return Array.from({ length: updates }, () => {
      const now = w;
      v = v.map((velocity, i) => m * velocity - rate * curvatures[i] * now[i]);
      w = now.map((weight, i) => weight + v[i]);
      return now;
    });
  };
  const losses = (rate, m, curvatures, updates) => descent(rate, m, curvatures, updates)
    .map((w) => curvatures.reduce((sum, curvature, i) => sum + curvature * w[i] ** 2 / 2, 0));
  const largestRate = (m, curvature) => 2 * (1 + m) / curvature;
  const decay = (rate, m, curvature) => { // the larger of the two roots' lengths, and how the direction is travelled
    const half = (1 + m - rate * curvature) / 2, under = half ** 2 - m;
    const factor = under < 0 ? Math.sqrt(m) : Math.abs(half) + Math.sqrt(under);
    return { factor, way: under < 0 ? "swings" : half < 0 ? "jumps across" : "creeps" };
  };
  const UPDATES = 200; // four epochs of 50, as in lecture 02
  const settings = ({ rate, m }) => [[rate, m / 100], [rate, 0], [rate / (1 - m / 100), 0]];
  const named = ({ rate, m }) => [`η = ${three(rate)}, m = ${three(m / 100)}`, `η = ${three(rate)}`, `η = ${three(rate / (1 - m / 100))}`];
  const valley = ({ steep, ratio }) => [steep, steep / ratio];
  const left = (rate, m, v) => {
    const all = losses(rate, m, valley(v), UPDATES + 1), share = 100 * all.at(-1) / all[0];
    return !(share < 1e4) ? "above 10,000 %" : share < 0.001 ? "below 0.001 %" : `${three(share)} %`;
  };
  const travelled = ({ factor, way }) => {
    const updates = Math.LN2 / Math.abs(Math.log(factor));
    return factor > 1 + 1e-9 ? `doubled in ${three(updates)}` : factor > 1 - 1e-9 ? "stays" : `${three(updates)}, ${way}`;
  };

  // Ways from C maps of side × side pixels to K, by the lecture's counter (lecture 03): convolutions [k, in, out, groups,
  // pixels a side of the output], "same" padding, the stride in the k × k, a bias for each filter. Not every number of
  // groups divides the maps: the largest that does, and is no more than g, counts.
  const divisor = (g, ...maps) => {
    let most = Math.min(g, ...maps);
    while (maps.some((n) => n % most)) most--;
    return most;
  };
  const ways = ({ side, C, K, k, stride, R, g }) => {
    const out = Math.ceil(side / stride), cut = divisor(g, C, K), inside = divisor(g, R);
    const to = [1, C, R, 1, side], from = [1, R, K, 1, out];
    return {
      [`plain ${k} × ${k}`]: [[k, C, K, 1, out]],
      [`${k} × ${k} in ${inGroups(cut)}`]: [[k, C, K, cut, out]],
      [`depthwise ${k} × ${k}, then 1 × 1`]: [[k, C, C, C, out], [1, C, K, 1, out]],
      [`1 × 1 to ${R}, then ${k} × ${k}`]: [to, [k, R, K, 1, out]],
      [`bottleneck, ${R} inside`]: [to, [k, R, R, 1, out], from],
      [`bottleneck, ${inGroups(inside)} inside`]: [to, [k, R, R, inside, out], from],
    };
  };
  const inGroups = (n) => n === 1 ? "1 group" : `${n} groups`;
  const counts = (convolutions) => convolutions.reduce((sum, [k, C, K, groups, out]) => ({
    parameters: sum.parameters + (k ** 2 * C / groups + 1) * K,
    products: sum.products + out ** 2 * K * k ** 2 * C / groups,
    kept: sum.kept + out ** 2 * K,
  }), { parameters: 0, products: 0, kept: 0 });
  const counted = (shape) => Object.values(ways(shape)).map(counts);
  const blocks = {
    "GoogLeNet 3a, its 5 × 5": { side: 28, C: 192, K: 32, k: 5, stride: 1, R: 16, g: 4 },
    "AlexNet conv2, two groups": { side: 27, C: 96, K: 256, k: 5, stride: 1, R: 48, g: 2 },
    "ResNet-50, first stage": { side: 56, C: 256, K: 256, k: 3, stride: 1, R: 64, g: 1 },
    "ResNeXt-50, first stage": { side: 56, C: 256, K: 256, k: 3, stride: 1, R: 128, g: 32 },
    "MobileNetV2, 14 × 14": { side: 14, C: 64, K: 64, k: 3, stride: 1, R: 384, g: 384 },
  };

  // Seconds of a step on p GPUs with n images each (lecture 07): compute, and the visible part of a ring
  // over servers of `gpus`. M: bytes of the gradient. link: bytes/s of a server. All but the last bucket
  // overlaps with the backward pass.
  const step = ({ p, n, gpus, M, link, alpha, bucket, backward, forward }) => {
    const s = Math.ceil(p / gpus), ring = 2 * (s - 1) * alpha + 2 * (s - 1) / s * M / link;
    const hidden = Math.min(backward * n, ring * (1 - Math.min(bucket / M, 1)));
    return { compute: (backward + forward) * n, ring, hidden, time: (backward + forward) * n + ring - hidden };
  };
  // From the sliders. Weak: n images on each GPU. Strong: N in all, and the GPU that has most of them sets the time.
  const units = ({ gpus, M, link, alpha, bucket, compute }) => ({ gpus, M: M * 1e6, link: link * 1e9, alpha: alpha * 1e-6,
    bucket: bucket * 1e6, backward: compute * 1e-3 * 2 / 3, forward: compute * 1e-3 / 3 });
  const weak = (v, p) => {
    const of = { ...units(v), n: v.n }, found = step({ ...of, p });
    return { ...found, n: v.n, faster: p * step({ ...of, p: 1 }).time / found.time };
  };
  const strong = (v, p) => {
    const of = units(v), n = Math.ceil(v.N / p), found = step({ ...of, p, n });
    return { ...found, n, faster: step({ ...of, p: 1, n: v.N }).time / found.time };
  };

  const onDevice = (v) => v.device === "on these cores" ? v : { ...v, c: 0 };

  // rows: [name, value] of the table, or a value for each of `columns`; a value is text, or {words, part,
  // share} with a bar. says: a description of the figures. curves: logarithmic. plane: a second, linear
  // figure.
  const laws = {
    roofline: {
      title: "What if: a layer under the roofline",
      asks: "Is a layer limited by compute or by memory? Try this: give a 1 × 1 layer more and more filters, with few "
        + "channels and with many. When does it reach the flat ceiling? And on the next machine?",
      choices: [
        { name: "layer", label: "layer", options: Object.keys(layers), start: "AlexNet conv2", sets: (name) => layers[name], own: "your own" },
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
      note: "The ceiling is the maximum that the peak or the bandwidth allows, and the time follows from it. It does not "
        + "show how fast a program is.",
      x: "arithmetic intensity, FLOP per byte", y: "attainable GFLOP/s",
      marks: (v) => rungs.map(([rung]) => {
        const found = layer(v), at = found.flops / found[rung];
        return [at, rung, roofline(at, ...machines[v.machine]) / 1e9];
      }),
      curves: () => Object.entries(machines).map(([name, roofs]) => [name, range(0.05, 5000).map((at) => [at, roofline(at, ...roofs) / 1e9])]),
    },
    noise: {
      title: "What if: noise scale and batch",
      asks: "How many ranks are useful? Raise k until the efficiency is 50%, and compare the global batch size with the "
        + "noise scale. The noise scale grows tenfold during training. How does that change k?",
      sliders: [
        { name: "B", label: "noise scale, images", from: 5, to: 50000, start: 300, show: three },
        { name: "n", label: "batch size per rank n", from: 1, to: 512, start: 32, whole: true, show: whole },
        { name: "k", label: "ranks k", from: 1, to: 1024, start: 32, whole: true, show: whole },
      ],
      rows: ({ B, n, k }) => [
        ["global batch size, kn", whole(k * n)],
        ["best learning rate, relative to one rank", `${three(factor(B, n, k))}×`],
        ["by the rules √k and k", `${three(Math.sqrt(k))}× and ${whole(k)}×`],
        ["updates to a target, relative to one rank", `${three(100 * steps(B, k * n) / steps(B, n))} %`],
        ["images to it, relative to one rank", `${three(examples(B, k * n) / examples(B, n))}×`],
        ["efficiency: times fewer updates, over k", `${three(100 * factor(B, n, k) / k)} %`],
      ],
      note: "A quadratic model with the best learning rate in each step. Steps and images follow McCandlish et al. "
        + "(2018, section 2), not a measurement. The noise scale itself grows during training.",
      x: "global batch size", y: "relative to the minimum", at: ({ n, k }) => k * n,
      curves: ({ B }) => [["updates", range(1, 524288).map((N) => [N, steps(B, N)])], ["images", range(1, 524288).map((N) => [N, examples(B, N)])]],
    },
    pipeline: {
      title: "What if: the input pipeline",
      asks: "Which stage is the bottleneck, and what hides it? Make the disk ten times as slow. How many calls at "
        + "a time restore the previous speed? Then let the step compute on an accelerator. Which stage waits now?",
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
      x: "cores", y: "images per second", at: ({ p }) => p,
      curves: (v) => Object.entries(pipelines).map(([name, f]) => [name, range(1, 64).map((p) => [p, 1e3 / f({ ...onDevice(v), p })])]),
    },
    staleness: {
      title: "What if: learning rate and stale gradients",
      asks: "How much smaller must the learning rate be if gradients are stale? Set ηλ = 1, and raise the staleness by one. "
        + "Then find, for 64 workers, a learning rate that still converges.",
      sliders: [
        { name: "s", label: "staleness s", from: 0, to: 63, start: 7, linear: true, show: three },
        { name: "rate", label: "rate × curvature, ηλ", from: 0.005, to: 3, start: 0.1, show: three },
      ],
      rows: ({ s, rate }) => [
        ["largest ηλ of a parabola", three(staleLimit(s))],
        ["of that without staleness", `1/${three(staleLimit(0) / staleLimit(s))}`],
        ["the approximation π / (2s + 1)", three(Math.PI / (2 * s + 1))],
        [`with ηλ = ${three(rate)}, the parabola`, rate < staleLimit(s) ? "converges" : "does not converge"],
        ["smallest staleness without convergence", rate >= 2 ? "any" : three(Math.floor((Math.PI / (2 * Math.asin(rate / 2)) - 1) / 2 + 1 - 1e-9))],
      ],
      note: "Plain SGD on a parabola without noise, each gradient exactly s updates old.",
      x: "2s + 1", y: "ηλ", at: ({ s }) => 2 * s + 1,
      curves: ({ rate }) => [["limit", range(1, 127).map((m) => [m, staleLimit((m - 1) / 2)])],
        ["π / (2s + 1)", range(1, 127).map((m) => [m, Math.PI / m])], ["your ηλ", [[1, rate], [127, rate]]]],
    },
    momentum: {
      title: "What if: learning rate and momentum in a valley",
      asks: "Momentum should learn like a learning rate 1/(1 − m) times as large without it (2.4). Does it, and up to which "
        + "learning rate? Raise η step by step. Which of the three diverges first? Reset η and raise m to 0.99. What becomes slower?",
      sliders: [
        { name: "rate", label: "learning rate η", from: 0.001, to: 10, start: 0.01, show: three },
        { name: "m", label: "momentum m", from: 0, to: 99, start: 90, linear: true, show: (m) => three(m / 100) },
        { name: "steep", label: "curvature across", from: 0.1, to: 100, start: 4, show: three },
        { name: "ratio", label: "times flatter along", from: 1, to: 1000, start: 30, show: (ratio) => `${three(ratio)}×` },
      ],
      columns: named,
      rows: (v) => {
        const [across, along] = valley(v), each = (f) => settings(v).map(([rate, m]) => f(rate, m));
        return [
          ["largest learning rate that converges", ...each((rate, m) => three(largestRate(m, across)))],
          ["updates that halve the distance across the valley", ...each((rate, m) => travelled(decay(rate, m, across)))],
          ["and along it", ...each((rate, m) => travelled(decay(rate, m, along)))],
          [`loss after ${UPDATES} updates, of the first`, ...each((rate, m) => left(rate, m, v))],
        ];
      },
      says: (v) => {
        const names = named(v), [across] = valley(v);
        const good = settings(v).map(([rate, m]) => rate < largestRate(m, across));
        const list = (wanted) => names.filter((_, i) => good[i] === wanted).join("; "), [most, , tenfold] = settings(v).map(([rate, m]) => left(rate, m, v));
        const [m, times] = [v.m / 100, 1 / (1 - v.m / 100)];
        return [good.includes(true) ? `Converges: ${list(true)}.` : "None of the three converges.",
          good.includes(true) && good.includes(false) ? `Diverges: ${list(false)}.` : "",
          m ? `After ${UPDATES} updates the loss is ${most} of the first with momentum, ${tenfold} with ${three(times)} times the rate. `
            + `With momentum ${three(m)} the largest rate is ${three(1 + m)} times that without, not ${three(times)} times.`
            : `After ${UPDATES} updates the loss is ${most} of the first.`].filter(Boolean).join(" ");
      },
      note: "A parabola without noise represents the network, which has no such valley. Its steepest direction determines the "
        + "largest learning rate, its flattest one the time. It begins at 1 in both. With curvature 4 the limit without momentum is as found in 2.4, "
        + "above 0.3 and below 3. A jumping direction changes sides in each update, a swinging one after several. The curves are cut at 100 and 1e-6.",
      plane: {
        x: "along the valley", y: "across",
        rings: (v) => [1, 0.3, 0.1, 0.03, 0.01, 0.003].map((level) => [Math.sqrt(level * (v.ratio + 1)), Math.sqrt(level * (1 + 1 / v.ratio))]),
        paths: (v) => settings(v).map(([rate, m], i) => [named(v)[i], descent(rate, m, valley(v), UPDATES + 1).map(([across, along]) => [along, across])]),
      },
      x: "update", y: "loss, of the first one", legend: true, marks: () => [],
      curves: (v) => settings(v).map(([rate, m], i) => {
        const all = losses(rate, m, valley(v), UPDATES);
        return [named(v)[i], all.map((loss, at) => [at + 1, loss / all[0] < 100 ? Math.max(loss / all[0], 1e-6) : 100])];
      }),
    },
    block: {
      title: "What if: the same maps by another convolution",
      asks: "How much do a preceding 1 × 1, groups, and a depthwise filter save, and in which of the three sizes of a layer "
        + "(3.1, 3.5, 3.9)? Try GoogLeNet's 5 × 5 with 16 maps inside, then with 96. Then find what ResNeXt gains with ResNet's multiply-adds.",
      choices: [{ name: "block", label: "block", options: Object.keys(blocks), start: "GoogLeNet 3a, its 5 × 5", sets: (name) => blocks[name], own: "your own" }],
      sliders: [
        { name: "side", label: "pixels a side", from: 1, to: 256, start: 28, whole: true, show: whole },
        { name: "C", label: "channels C", from: 1, to: 2048, start: 192, whole: true, show: whole },
        { name: "K", label: "filters K", from: 1, to: 2048, start: 32, whole: true, show: whole },
        { name: "k", label: "kernel size k", from: 1, to: 11, start: 5, linear: true, show: (k) => `${k} × ${k}` },
        { name: "stride", label: "stride", from: 1, to: 4, start: 1, linear: true, show: three },
        { name: "R", label: "maps inside R", from: 1, to: 2048, start: 16, whole: true, show: whole },
        { name: "g", label: "groups, at most", from: 1, to: 2048, start: 4, whole: true, show: whole },
      ],
      columns: () => ["parameters", "multiply-adds", "outputs kept"],
      rows: (v) => {
        const found = counted(v), sizes = Object.keys(found[0]);
        const most = Object.fromEntries(sizes.map((size) => [size, Math.max(...found.map((one) => one[size]))]));
        return Object.keys(ways(v)).map((name, i) => [name, ...sizes.map((size) => ({ share: found[i][size] / most[size],
          words: many(found[i][size]), part: `(${three(100 * found[i][size] / found[0][size])} %)` }))]);
      },
      says: (v) => {
        const found = counted(v), names = Object.keys(ways(v)), [plain, , , reduced] = found;
        const least = (size) => names[found.findIndex((one) => one[size] === Math.min(...found.map((other) => other[size])))];
        return `A 1 × 1 to ${v.R} before the ${v.k} × ${v.k} divides the multiply-adds by ${three(plain.products / reduced.products)} `
          + `and multiplies the outputs kept by ${three(reduced.kept / plain.kept)}. Fewest parameters: ${least("parameters")}; `
          + `fewest multiply-adds: ${least("products")}; fewest outputs: ${least("kept")}.`;
      },
      note: "For one image, with biases and without normalisation; in brackets, of the plain convolution. The bottleneck is 1 × 1, "
        + "k × k, 1 × 1, and the stride is in the k × k. Each column has a separate scale. "
        + "Fewer multiply-adds do not necessarily take less time (3.10).",
    },
    scaling: {
      title: "What if: weak and strong scaling",
      asks: "How many times as fast is a step with 256 images on 256 GPUs instead of one (7.6)? How few GPUs reach half of "
        + "that? Which helps strong scaling most: ten times the link's bandwidth, a tenth of the gradient, or more images?",
      sliders: [
        { name: "p", label: "GPUs p", from: 1, to: 1024, start: 256, whole: true, show: whole },
        { name: "n", label: "images n, weak", from: 1, to: 512, start: 32, whole: true, show: whole },
        { name: "N", label: "images pn, strong", from: 1, to: 65536, start: 256, whole: true, show: whole },
        { name: "compute", label: "compute of an image", from: 0.05, to: 500, start: 5.625, show: (ms) => `${three(ms)} ms` },
        { name: "M", label: "gradient, MB", from: 0.1, to: 10000, start: 102, show: (mb) => size(mb * 1e6) },
        { name: "bucket", label: "last bucket, MB", from: 0.1, to: 10000, start: 25, show: (mb) => size(mb * 1e6) },
        { name: "link", label: "server's link, GB/s", from: 0.1, to: 400, start: 6.25, show: (rate) => `${three(rate)} GB/s` },
        { name: "alpha", label: "latency α, µs", from: 0.5, to: 500, start: 20, show: (us) => `${three(us)} µs` },
        { name: "gpus", label: "GPUs of a server", from: 1, to: 16, start: 8, linear: true, show: three },
      ],
      columns: () => ["weak", "strong"],
      rows: (v) => {
        const both = [weak(v, v.p), strong(v, v.p)], each = (f) => both.map(f);
        return [
          ["images of a GPU", ...each(({ n }) => whole(n))],
          ["images of the step", whole(v.p * v.n), whole(v.N)],
          ["compute", ...each(({ compute }) => time(compute))],
          ["exchange", ...each(({ ring }) => time(ring))],
          ["of it hidden behind the compute", ...each(({ hidden }) => time(hidden))],
          ["step", ...each((one) => time(one.time))],
          ["times as fast as one GPU", ...each(({ faster }) => `${three(faster)}×`)],
          ["efficiency", ...each(({ faster }) => `${three(100 * faster / v.p)} %`)],
        ];
      },
      says: (v) => {
        const [large, small] = [weak(v, v.p), strong(v, v.p)], seen = (one) => time(one.ring - one.hidden);
        return `On ${whole(v.p)} GPUs weak scaling has an efficiency of ${three(100 * large.faster / v.p)} %, with ${seen(large)} of the exchange `
          + `in sight; strong scaling has ${three(100 * small.faster / v.p)} %, with ${seen(small)} in sight.`
          + `${v.p > v.N ? ` ${whole(v.p - v.N)} of its GPUs have no image.` : ""}`;
      },
      note: "Calculated for a ring over servers, inside which the exchange is free; two thirds of the compute are the backward pass. "
        + "If the images of a step cannot be divided evenly, the GPU with the most images determines the time. A real step also "
        + "waits for the slowest rank, for its input and for links that others use.",
      x: "GPUs", y: "efficiency, %", legend: true, at: ({ p }) => p,
      curves: (v) => [["weak", weak, v], ["weak, no overlap", weak, { ...v, bucket: v.M }], ["strong", strong, v],
        ["strong, no overlap", strong, { ...v, bucket: v.M }]].map(([name, f, of]) => [name,
        [...new Set(range(1, 1024).map(Math.round))].map((p) => [p, 100 * f(of, p).faster / p])]),
    },
    amdahl: {
      title: "What if: Amdahl and Gustafson",
      asks: "With how many ranks is half of them wasted? Find this p for a serial fraction of 5%, and of 1%. Does "
        + "Gustafson contradict Amdahl? Explain what stays the same in each.",
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
      asks: "Which is faster, and why is there more than one? Try: 1 KB on 64 ranks, then 100 MB. Find the size at which ring "
        + "and tree are equally fast, then give the network a tenth of the latency.",
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
      asks: "How often is often enough? Try: a checkpoint that takes half as long: how much more of the machine do you get? Then "
        + "let failures come nearly as often as a checkpoint takes: which formula fails first?",
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
    sharding: {
      title: "What if: gathered weights",
      asks: "From how many tokens per GPU on is stage 3 free? Try: double the layer, then the GPU's FLOP/s: which of them moves the "
        + "bend? Give the link a tenth of its bandwidth. How small must a layer be before the latency counts?",
      sliders: [
        { name: "N", label: "tokens per GPU N", from: 100, to: 200000, start: 8192, whole: true, show: whole },
        { name: "size", label: "parameters of a layer, millions", from: 0.1, to: 2000, start: 200, show: three },
        { name: "F", label: "a GPU's TFLOP/s F", from: 1, to: 5000, start: 593.4, show: three },
        { name: "rate", label: "its link 1/β, GB/s", from: 1, to: 2000, start: 50, show: (v) => `${three(v)} GB/s` },
        { name: "alpha", label: "latency α, µs", from: 0.5, to: 500, start: 20, show: (v) => `${three(v)} µs` },
        { name: "p", label: "GPUs p", from: 2, to: 4096, start: 64, whole: true, show: whole },
      ],
      rows: (v) => {
        const c = 2e6 * v.size * v.N / (1e12 * v.F), g = gatherTime(1e6 * v.size, v.p, 1e9 * v.rate, 1e-6 * v.alpha);
        return [
          ["forward pass of a layer", time(c)],
          ["gather of its weights", time(g)],
          [`step of ${SHARDED} layers, with prefetch`, `${time(shardedStep(SHARDED, c, g))}, of which ${three(300 * SHARDED * c / shardedStep(SHARDED, c, g))} % compute`],
          ["without prefetch", `${time(SHARDED * 3 * (c + g))}, of which ${three(100 * c / (c + g))} % compute`],
          ["gathering is hidden from", `${whole(g * 1e12 * v.F / (2e6 * v.size))} tokens per GPU`],
        ];
      },
      note: "Calculated for equal layers, a network that is not shared, and computing that takes the same time whatever is sent meanwhile.",
      x: "tokens per GPU", y: "computing, % of the step", legend: true, at: ({ N }) => N,
      curves: (v) => [["with prefetch", shardedStep], ["without", (layers, c, g) => layers * 3 * (c + g)]].map(([name, f]) => [name,
        range(100, 200000).map((N) => {
          const c = 2e6 * v.size * N / (1e12 * v.F), g = gatherTime(1e6 * v.size, v.p, 1e9 * v.rate, 1e-6 * v.alpha);
          return [N, 300 * SHARDED * c / f(SHARDED, c, g)];
        })]),
    },
  };
  window.whatIf = { gatherTime, shardedStep, layer, roofline, shapeOf: (name) => layers[name], machineOf: (name) => machines[name], descent, losses, largestRate, decay, ways, counts, counted, step, weak, strong, factor, steps, examples, pipelines, staleLimit, amdahl, gustafson, ring, tree, halving, young, daly, best, goodput }; // for the test

  const SVG = "http://www.w3.org/2000/svg", H = 280, LEFT = 74, BOTTOM = 44, TOP = 14, DASHES = ["", "7 4", "2 4", "10 3 2 3"];
  const element = (name, fields, words) => {
    const made = document.createElementNS(SVG, name);
    for (const [field, value] of Object.entries(fields)) made.setAttribute(field, value);
    if (words) made.textContent = words;
    return made;
  };
  // A line for each name, with its dashes, from the lower left corner upwards.
  const legend = (names, x, y) => names.flatMap((name, i) => {
    const at = y - 17 * (names.length - 1 - i);
    return [element("polyline", { points: `${x},${at - 4} ${x + 28},${at - 4}`, class: "curve", "stroke-dasharray": DASHES[i] }), element("text", { x: x + 34, y: at }, name)];
  });
  // Draw the curves with logarithmic axes and a line at the sliders' position; the table has the same as
  // text.
  function draw(svg, law, values) {
    // As wide as its container, to keep the size of letters; a narrow one has the names inside.
    const W = Math.max(280, Math.min(640, Math.round(svg.parentElement.clientWidth - 36))), narrow = W < 520, RIGHT = narrow ? 18 : 150;
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const curves = law.curves(values).map(([name, points]) => [name, points.filter(([, y]) => y > 1e-9)]);
    const all = curves.flatMap(([, points]) => points);
    const ends = (axis) => [Math.min(...all.map((p) => p[axis])), Math.max(...all.map((p) => p[axis]))].map(Math.log10);
    const [x0, x1] = ends(0), [y0, top] = ends(1), y1 = Math.max(top, y0 + 0.1);
    const X = (x) => LEFT + (Math.log10(x) - x0) / (x1 - x0) * (W - LEFT - RIGHT);
    const Y = (y) => H - BOTTOM - (Math.log10(y) - y0) / (y1 - y0) * (H - BOTTOM - TOP);
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
    // The names at the curves' ends, or in a narrow window above them, each on a separate line inside the
    // frame.
    const labels = curves.map(([name, points]) => ({ name, y: Y(points.at(-1)[1]) + (narrow ? -5 : 4) })).sort((a, b) => a.y - b.y);
    const first = narrow ? TOP + 14 : TOP + 4, last = narrow ? H - BOTTOM - 6 : H - BOTTOM + 2;
    labels.forEach((label, i) => { label.y = Math.max(label.y, i ? labels[i - 1].y + 15 : first); });
    labels.reduceRight((below, label) => { label.y = Math.min(label.y, below); return label.y - 15; }, last);
    curves.forEach(([, points], i) => svg.append(element("polyline", {
      points: points.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" "), class: "curve", "stroke-dasharray": DASHES[i] })));
    const here = law.marks ? law.marks(values) : [[law.at(values)]];
    here.forEach(([at, name, y], i) => {
      if (Math.log10(at) < x0 || Math.log10(at) > x1) return;
      svg.append(element("line", { x1: X(at), x2: X(at), y1: TOP, y2: H - BOTTOM, class: "here" }));
      if (y) svg.append(element("circle", { cx: X(at), cy: Y(y), r: 5, class: "here" }));
      if (name) svg.append(element("text", { x: X(at) + 5, y: H - BOTTOM - 8 - 15 * i }, name));
    });
    if (narrow && law.legend) svg.append(...legend(curves.map(([name]) => name), LEFT + 8, H - BOTTOM - 10));
    else for (const label of labels) svg.append(element("text", narrow
      ? { x: W - RIGHT - 6, y: label.y, "text-anchor": "end" } : { x: W - RIGHT + 6, y: label.y }, label.name));
  }

  // Paths on a plane of two weights from -1.3 to 1.3, with lines of equal loss: linear axes, the same for both.
  function drawPlane(svg, { x, y, rings, paths }, values) {
    const side = Math.max(200, Math.min(300, Math.round(svg.parentElement.clientWidth - 36) - LEFT - 8)), most = 1.3;
    const W = LEFT + side + 8, H = TOP + side + BOTTOM, X = (at) => LEFT + (at + most) / (2 * most) * side, Y = (at) => TOP + (most - at) / (2 * most) * side;
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    svg.style.maxWidth = `${W}px`;
    const box = { x: LEFT, y: TOP, width: side, height: side }, clip = element("clipPath", { id: "plane" });
    clip.append(element("rect", box));
    const inside = element("g", { "clip-path": "url(#plane)" });
    for (const [rx, ry] of rings(values)) inside.append(element("ellipse", { cx: X(0), cy: Y(0), rx: rx / (2 * most) * side, ry: ry / (2 * most) * side, class: "frame" }));
    const found = paths(values).map(([name, points]) => {
      const away = points.findIndex((point) => !point.every((at) => Math.abs(at) < 1e3)); // far outside: no need to follow it
      return [name, away < 0 ? points : points.slice(0, away)];
    });
    found.forEach(([, points], i) => inside.append(element("polyline", {
      points: points.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" "), class: "curve", "stroke-dasharray": DASHES[i] })));
    svg.replaceChildren(clip, element("rect", { ...box, class: "frame" }), inside, element("circle", { cx: X(1), cy: Y(1), r: 5, class: "here" }));
    for (const at of [-1, 0, 1]) svg.append(element("text", { x: X(at), y: TOP + side + 16, "text-anchor": "middle" }, String(at)),
      element("text", { x: LEFT - 6, y: Y(at) + 4, "text-anchor": "end" }, String(at)));
    svg.append(element("text", { x: LEFT + side / 2, y: H - 8, "text-anchor": "middle" }, x),
      element("text", { transform: `translate(14 ${TOP + side / 2}) rotate(-90)`, "text-anchor": "middle" }, y));
    svg.append(...legend(found.map(([name]) => name), LEFT + 8, TOP + side - 12));
  }

  // No line ends within 5 × 5, m = 0.9 or 3 ms.
  const glued = (words) => words.replace(/ ([×=−]) /g, "\u00a0$1\u00a0").replace(/(\d) (?=%|([kMGT]|[kMG]?B|[mµ]?s|min|h)\b)/g, "$1\u00a0");
  const make = (tag, words = "", fields = {}) => Object.assign(document.createElement(tag), { textContent: glued(words) }, fields);
  for (const place of document.querySelectorAll(".explorer")) {
    if (place.dataset.machine) {
      const { name, peak, bandwidth } = JSON.parse(place.dataset.machine);
      machines[name] = [peak, bandwidth];
      laws.roofline.choices[1].options.push(name);
    }
    const law = laws[place.dataset.law];
    const values = {}, sliders = {};
    const picture = (draw) => { // for the eye; the table, and what it says below, are for all
      const svg = element("svg", { "aria-hidden": "true", focusable: "false" });
      return { svg, draw: () => draw(svg) };
    };
    const pictures = [...law.plane ? [picture((svg) => drawPlane(svg, law.plane, values))] : [],
      ...law.curves ? [picture((svg) => draw(svg, law, values))] : []];
    const table = make("table", "", { className: law.columns ? "columns" : "" }), summary = make("p");
    const line = (...cells) => {
      const row = make("tr");
      row.append(...cells);
      return row;
    };
    // A cell's number, below it a bar where the number is a share of the column's largest.
    const cell = (value) => {
      if (value.share === undefined) return make("td", value);
      const made = make("td", `${value.words} `), bar = make("span", "", { className: "bar" });
      bar.style.width = `${100 * value.share}%`;
      made.append(make("small", value.part), bar);
      return made;
    };
    const update = () => {
      const head = law.columns ? [line(make("td"), ...law.columns(values).map((name) => make("th", name, { scope: "col" })))] : [];
      table.replaceChildren(...head, ...law.rows(values).map(([name, ...found]) => line(make("th", name, { scope: "row" }), ...found.map(cell))));
      if (law.says) summary.textContent = glued(law.says(values));
      for (const one of pictures) one.draw();
    };
    place.append(make("h3", law.title));
    if (law.asks) place.append(make("p", law.asks));
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
    place.append(table, ...law.says ? [summary] : [], ...pictures.map(({ svg }) => svg));
    if (law.note) place.append(make("p", law.note));
    update();
    addEventListener("resize", () => pictures.forEach((one) => one.draw()));
  }
})();
