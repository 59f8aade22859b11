// Guess, then reveal: what a cell found opens when the reader has written down a number, or asks to see it.
// Guesses are kept in this browser's localStorage and nowhere else. Without this script everything is open.
"use strict";
(() => {
  const page = location.pathname.split("/").pop();
  const remembered = {};
  const key = (question) => `guess ${page} ${question}`;
  const read = (question) => {
    try { return localStorage.getItem(key(question)); } catch { return remembered[question] ?? null; }
  };
  const keep = (question, text) => {
    remembered[question] = text;
    try {
      if (text === null) localStorage.removeItem(key(question)); else localStorage.setItem(key(question), text);
    } catch { /* a browser that stores nothing: this visit remembers */ }
  };
  const isNumber = (text) => {
    const plain = text.replaceAll(",", "").trim().replace(/[%×]+$/, "").trim();
    return plain !== "" && Number.isFinite(Number(plain));
  };
  const make = (tag, words = "", fields = {}) => Object.assign(document.createElement(tag), { textContent: words }, fields);
  const status = make("div", "", { className: "visually-hidden" });
  status.setAttribute("role", "status");
  const hidden = { position: "absolute", width: "1px", height: "1px", overflow: "hidden", clipPath: "inset(50%)" };
  Object.assign(status.style, hidden);
  (document.querySelector("main") ?? document.body).append(status);

  const shut = []; // {asked, output, note, original}
  const forms = [];

  // What the notebook printed says "you wrote down no guess": the reader's own stands there now.
  function say(one) {
    for (const text of one.texts) {
      text.node.data = text.original.replace(/^(.*): ([^:]*); you wrote down no guess$/gm, (line, question, value) => {
        const guessed = read(question);
        return guessed ? `${question}: ${value}; you guessed ${guessed}` : line;
      });
    }
  }

  function update() {
    for (const one of shut) {
      const open = one.asked.every((question) => read(question) !== null);
      one.output.hidden = !open;
      one.note.hidden = open;
      say(one);
    }
    for (const form of forms) form.show();
  }

  function formOf(asked, place, target) {
    const form = make("form", "", { className: "guess-box", noValidate: true });
    form.setAttribute("aria-label", `Your guess: ${asked.join(", ")}`);
    form.append(make("p", "Your guess, before you read on:"));
    const inputs = asked.map((question) => {
      const label = make("label");
      const input = make("input", "", { type: "text", inputMode: "decimal", autocomplete: "off" });
      label.append(make("span", question), input);
      form.append(label);
      return input;
    });
    const wrong = make("p", "", { className: "wrong" });
    wrong.setAttribute("role", "alert");
    const commit = make("button", "Write it down", { type: "submit" });
    const skip = make("button", "Show it without a guess", { type: "button" });
    const again = make("button", "Guess again", { type: "button" });
    form.append(wrong, commit, skip, again);
    place(form);
    const done = () => asked.every((question) => read(question) !== null);
    form.show = () => {
      inputs.forEach((input, i) => {
        const kept = read(asked[i]);
        input.readOnly = kept !== null;
        if (kept !== null) input.value = kept;
      });
      commit.hidden = skip.hidden = done();
      again.hidden = !done();
    };
    const opened = (words) => {
      wrong.textContent = "";
      update();
      status.textContent = words;
      const output = target();
      if (output && !output.hidden) { output.tabIndex = -1; output.focus(); } else again.focus();
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const bad = inputs.find((input) => !isNumber(input.value));
      inputs.forEach((input) => input.setAttribute("aria-invalid", String(input === bad)));
      if (bad) {
        wrong.textContent = "A number, please, such as 1,200 or 3e8.";
        bad.focus();
        return;
      }
      inputs.forEach((input, i) => keep(asked[i], input.value.trim()));
      opened("Written down. What was found is open.");
    });
    skip.addEventListener("click", () => {
      asked.forEach((question) => keep(question, ""));
      opened("Open, without a guess.");
    });
    again.addEventListener("click", () => {
      asked.forEach((question) => keep(question, null));
      inputs.forEach((input) => { input.value = ""; });
      update();
      status.textContent = "Shut again.";
      inputs[0].focus();
    });
    forms.push(form);
    return form;
  }

  const marked = (kind) => [...document.querySelectorAll(`.${kind}`)].map((mark) =>
    ({ mark, asked: JSON.parse(mark.dataset.asked), here: JSON.parse(mark.dataset.here) }));
  for (const { mark, asked, here } of marked("guess-answers")) {
    const cell = mark.nextElementSibling;
    const output = cell?.querySelector(".cell_output");
    if (!output) continue;
    const note = make("div", "", { className: "guess-box" });
    note.append(make("p", "What was found opens when you have written down your guess."));
    const show = make("button", "Show it without a guess", { type: "button" });
    note.append(show);
    const walk = document.createTreeWalker(output, NodeFilter.SHOW_TEXT), texts = [];
    while (walk.nextNode()) {
      if (walk.currentNode.data.includes("you wrote down no guess")) texts.push({ node: walk.currentNode, original: walk.currentNode.data });
    }
    show.addEventListener("click", () => {
      asked.filter((question) => read(question) === null).forEach((question) => keep(question, ""));
      update();
      output.tabIndex = -1;
      output.focus();
      status.textContent = "Open, without a guess.";
    });
    output.before(note);
    shut.push({ asked, output, note, texts });
    if (here.length) formOf(here, (form) => note.before(form), () => output);
    if (here.length === asked.length) note.remove();
  }
  for (const { mark, asked } of marked("guess-form")) {
    formOf(asked, (form) => mark.replaceWith(form), () => shut.find((one) => asked.some((q) => one.asked.includes(q)))?.output);
  }
  update();
})();
