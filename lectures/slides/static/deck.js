// Fits each slide to its page, then starts reveal.js. The class's answer to a poll is shown next to the
// measured one.
"use strict";
(async () => {
  const root = document.documentElement;
  const least = { text: 20, evidence: 13 }; // pixels of 720; the test of the slides holds the same bounds
  const over = (page) => {
    if (page.scrollHeight > page.clientHeight + 1 || page.scrollWidth > page.clientWidth + 1) return true;
    const edge = page.getBoundingClientRect();
    const bottom = edge.bottom - 40, right = edge.right - 60;
    return [...page.querySelectorAll(".points, .evidence, .evidence > *, table, pre, .block, .found")].some((part) => {
      const box = part.getBoundingClientRect();
      return box.bottom > bottom || box.right > right || part.clientWidth &&
        (part.scrollWidth > part.clientWidth + 1 || part.matches(".evidence") && part.scrollHeight > part.clientHeight + 1);
    });
  };
  root.classList.add("fitting");
  await document.fonts.ready;
  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  for (const page of document.querySelectorAll(".page")) {
    const size = { text: page.querySelector(".evidence") ? 30 : 36, evidence: 24 };
    if (page.querySelector(".asked")) size.evidence = 30;
    if (page.querySelector("pre.code")) size.evidence = 29;
    const set = (name, by) => page.style.setProperty(`--${name}`, `${(size[name] -= by)}px`);
    set("text", 0);
    set("evidence", 0);
    while (over(page) && (size.evidence > least.evidence || size.text > least.text)) {
      if (size.evidence > 18 || size.text <= least.text) size.evidence > least.evidence && set("evidence", 1);
      if (size.text > least.text) set("text", 1);
    }
  }
  root.classList.remove("fitting");

  for (const field of document.querySelectorAll("input[data-asked]")) {
    field.addEventListener("keydown", (event) => event.key === "Enter" && field.blur()); // keys turn slides again
    field.addEventListener("input", () => {
      for (const said of document.querySelectorAll("output.said")) {
        if (said.dataset.asked === field.dataset.asked) {
          said.value = field.value.trim() && `you said ${field.value.trim()}`;
        }
      }
    });
  }
  await Reveal.initialize({
    width: 1280, height: 720, margin: 0, minScale: 0.1, maxScale: 4, center: false, hash: true,
    slideNumber: "c/t", transition: "none", controlsTutorial: false, plugins: [RevealNotes],
  });
  root.dataset.ready = "yes";
})();
