// Guess, then reveal: a cell's result, and the text about it up to the next heading, are shown when the
// reader has entered a number or asks to see them. On paper everything is visible. Guesses are kept only in
// this browser's localStorage. Without this script everything is visible.
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

  const shut = []; // {asked, output, parts, note, texts}
  const forms = [];
  let all; // the button that opens everything

  // The notebook's output contains "you wrote down no guess", which is replaced by the reader's guess.
  function say(one) {
    for (const text of one.texts) {
      text.node.data = text.original.replace(/^(.*): ([^:]*); you wrote down no guess$/gm, (line, question, value) => {
        const guessed = read(question);
        return guessed ? `${question}: ${value}; you guessed ${guessed}` : line;
      });
    }
  }

  const isOpen = (one) => one.asked.every((question) => read(question) !== null);

  function update() {
    const closed = new Set(shut.filter((one) => !isOpen(one)).flatMap((one) => one.parts));
    for (const one of shut) {
      for (const part of one.parts) part.classList.toggle("shut", closed.has(part));
      if (one.note) one.note.hidden = isOpen(one);
      say(one);
    }
    for (const form of forms) form.show();
    if (all) all.hidden = !closed.size;
  }

  // The part that reveals an answer: from the first table or figure after the question, or from the output
  // of the answering cell, to the next heading. `own`: forms of its questions, which stay. `asked`: the
  // cell before the last of them. Returns {output: where it begins, parts: [element]}.
  function answering(cell, asked, own) {
    let from = asked?.parentElement === cell.parentElement ? asked : cell;
    while (from !== cell && !from.querySelector(".cell_output :is(img, table)")) from = from.nextElementSibling;
    const output = from.querySelector(".cell_output"), parts = [output];
    for (let next = from.nextElementSibling; next && !next.matches("section, .explorer"); next = next.nextElementSibling) {
      if (!own.some((form) => next.contains(form))) parts.push(next);
      else if (next === cell) parts.push(cell.querySelector(".cell_output"));
    }
    return { output, parts };
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
      if (output && output.checkVisibility()) { output.tabIndex = -1; output.focus(); } else again.focus();
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
      opened("Saved. The result is visible.");
    });
    skip.addEventListener("click", () => {
      asked.forEach((question) => keep(question, ""));
      opened("Shown, without a guess.");
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
  const outputOf = (asked) => shut.find((one) => asked.some((question) => one.asked.includes(question)))?.output;
  const asking = marked("guess-form").map(({ mark, asked }) => {
    const cell = mark.previousElementSibling;
    return { asked, cell, form: formOf(asked, (form) => mark.replaceWith(form), () => outputOf(asked)) };
  });
  for (const { mark, asked, here } of marked("guess-answers")) {
    const cell = mark.nextElementSibling;
    const printed = cell?.querySelector(".cell_output");
    if (!printed) continue;
    const before = asking.filter((one) => one.asked.some((question) => asked.includes(question)));
    const own = before.map((one) => one.form);
    if (here.length) own.push(formOf(here, (form) => printed.before(form), () => outputOf(here)));
    const { output, parts } = answering(cell, before.at(-1)?.cell, own);
    const walk = document.createTreeWalker(printed, NodeFilter.SHOW_TEXT), texts = [];
    while (walk.nextNode()) {
      if (walk.currentNode.data.includes("you wrote down no guess")) texts.push({ node: walk.currentNode, original: walk.currentNode.data });
    }
    const one = { asked, output, parts, texts };
    if (here.length < asked.length && !before.some((one) => one.cell.contains(output))) { // no form beside the gap: say why
      one.note = make("div", "", { className: "guess-box" });
      one.note.append(make("p", "The result and its meaning are shown when you have entered your guess above."));
      const show = make("button", "Show it without a guess", { type: "button" });
      one.note.append(show);
      show.addEventListener("click", () => {
        asked.filter((question) => read(question) === null).forEach((question) => keep(question, ""));
        update();
        output.tabIndex = -1;
        output.focus();
        status.textContent = "Shown, without a guess.";
      });
      output.before(one.note);
    }
    shut.push(one);
  }
  if (shut.length) {
    const heading = document.querySelector("article h1");
    all = make("div", "", { className: "guess-box" });
    all.append(make("p", "This page asks for guesses. Each result, and the text about it, is shown when you have "
      + "entered your guess. Guesses stay in this browser."));
    const button = make("button", "Show everything without guesses", { type: "button" });
    button.addEventListener("click", () => {
      shut.flatMap((one) => one.asked).filter((question) => read(question) === null).forEach((question) => keep(question, ""));
      update();
      status.textContent = "Everything is open.";
      heading.tabIndex = -1;
      heading.focus();
    });
    all.append(button);
    heading.after(all);
  }
  update();
})();
