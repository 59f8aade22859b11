// Notebooks in JupyterLab: the course's CSS, and figures with a text description for screen readers. The
// description is the text in italics at the start of the next cell, as in the book of the lectures.
const FIGURES = ".jp-Notebook .jp-RenderedImage img";

export function dress(ours) {
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = `${ours}notebooks.css`;
  document.head.append(sheet);
  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      document.querySelectorAll(FIGURES).forEach(describe);
    }, 500);
  }).observe(document.body, { childList: true, subtree: true });
}

export function describe(figure) {
  const words = described(figure.closest(".jp-Cell")) || "A figure without a description";
  if (figure.alt !== words) figure.alt = words;
}

function described(cell) {
  const first = cell?.nextElementSibling?.querySelector(".jp-RenderedMarkdown > p:first-child");
  const italic = first?.firstElementChild;
  const whole = italic?.tagName === "EM" && italic.textContent.trim() === first.textContent.trim();
  return whole ? italic.textContent.replace(/\s+/g, " ").replace(/^\s*\(Figure: *|\)\s*$/g, "") : "";
}
