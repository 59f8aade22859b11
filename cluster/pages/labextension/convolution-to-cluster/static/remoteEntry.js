// The course's pages in JupyterLab: the Course menu, launcher icons, a tab that shows a page, and a panel
// next to an assignment's notebook with Validate, Check and Submit. The functions that JupyterLab requires
// of an extension's module (init, get) are written by hand here, so no build is needed.
(() => {
  const NAME = "convolution-to-cluster";
  const draw = (way) =>
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="${way}"/></svg>`;
  const MAP = draw("M3 5l6-2 6 2 6-2v16l-6 2-6-2-6 2zm6 .2v12l6 1.9v-12z");
  const CHECK = draw("M4 3h16v18H4zm2 2v14h12V5zm2 6l1.4-1.4 2 2L15.6 7.4 17 8.8l-5.6 5.6z");
  const CLASS = draw("M12 3L1 9l11 6 9-4.9V17h2V9zM5 13.2V17l7 4 7-4v-3.8L12 17z");
  const BARS = draw("M3 4h12v4H3zm0 6h18v4H3zm0 6h8v4H3z");
  const dark = () => document.body.dataset.jpThemeLight === "false";
  let shared;

  async function load(name) {
    const versions = shared[name];
    if (!versions) throw new Error(`JupyterLab does not share ${name}`);
    return (await Object.values(versions)[0].get())();
  }

  function makePanel({ Widget }, live, base, lab) {
    return class Panel extends Widget {
      constructor(side) {
        super();
        this.side = side; // in the panel next to a notebook; all other pages open in the course's tab
        this.tree = this.node.attachShadow({ mode: "open" });
        this.node.style.overflow = "auto";
        this.url = "";
        this.tree.addEventListener("click", (event) => this.clicked(event));
        this.tree.addEventListener("submit", (event) => this.submitted(event));
        this.theme = new MutationObserver(() => this.tree.querySelector(".course")?.classList.toggle("dark", dark()));
        this.theme.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
        this.stop = live.follow(this.tree, () => this.url, () => this.isVisible);
      }

      async load(url, options) {
        let found;
        try {
          found = await live.fetched(url, options);
        } catch (error) {
          if (options?.signal?.aborted) return;
          this.put(`<main id="content"><h1>The course's page is not responding</h1></main>`, url);
          return;
        }
        const opens = new URL(found.url).pathname.split(`${base}lab/tree/`)[1]; // the answer to a button
        if (opens) return void lab.open(decodeURIComponent(opens));
        const page = found.page.getElementById("page");
        if (!page) return void window.open(url, "_blank", "noopener"); // logged out, or an error page
        page.querySelectorAll(".outside").forEach((node) => node.remove()); // it is in JupyterLab already
        this.put(page.innerHTML, found.url);
        this.title[this.side ? "caption" : "label"] = (found.page.title || "Course").split(" · ")[0];
      }

      put(html, url) {
        this.url = url;
        this.tree.innerHTML = `<link rel="stylesheet" href="${base}static/course_panel/panel.css">
          <div class="course${dark() ? " dark" : ""}${this.side ? " side" : ""}">${html}</div>`;
        live.localise(this.tree);
        this.node.scrollTop = 0;
        this.tree.querySelector("main")?.focus({ preventScroll: true });
      }

      clicked(event) {
        const link = event.target.closest("a");
        if (!link || event.ctrlKey || event.metaKey || event.shiftKey || link.target) return;
        const path = new URL(link.href).pathname;
        const { open, cell, name } = link.dataset;
        if (open) lab.open(open, cell && Number(cell), name);
        else if (path === `${base}course` || path.startsWith(`${base}course/`)) {
          if (this.side) lab.page(link.href);
          else this.load(link.href);
        } else return;
        event.preventDefault();
      }

      async submitted(event) {
        event.preventDefault();
        const { action, dataset } = event.target;
        const body = new URLSearchParams(new FormData(event.target, event.submitter));
        if (dataset.saves && !(await lab.save(dataset.saves))) return;
        if ("runs" in dataset) return this.run(action, body, dataset.runs || "Validate");
        this.load(action, { method: "POST", body });
      }

      // A notebook is run, which may take minutes: how long it has been, and a way to end it.
      async run(url, body = new URLSearchParams(), title = "Validate") {
        this.ends?.abort();
        const ends = (this.ends = new AbortController());
        const began = Date.now();
        this.put(
          `<main id="content" tabindex="-1"><h1>${title}</h1><p role="status">The notebook is running from its beginning, as in grading…
          <span id="seconds">0 s</span></p><p><progress aria-label="The notebook is running"></progress></p>
          <p><button class="button" id="end" type="button">${title === "Check" ? "Stop waiting: the check continues" : "Stop"}</button></p></main>`,
          "",
        );
        const tick = setInterval(() => {
          const words = this.tree.getElementById("seconds");
          if (words) words.textContent = `${Math.round((Date.now() - began) / 1000)} s`;
        }, 1000);
        this.tree.getElementById("end").addEventListener("click", () => {
          ends.abort();
          this.load(url);
        });
        try {
          await this.load(url, { method: "POST", body, signal: ends.signal });
        } finally {
          clearInterval(tick);
        }
      }

      dispose() {
        this.stop();
        this.theme.disconnect();
        this.ends?.abort();
        super.dispose();
      }
    };
  }

  // Scroll to the cell with this name, or if that is missing or not unique, to the cell with this number.
  // There may be no number, because the official check uses only names.
  async function reveal(document, number, name) {
    await document.context.ready;
    await document.revealed;
    const notebook = document.content;
    const named = (cell) => cell.model.getMetadata("nbgrader")?.grade_id === name;
    const found = notebook.widgets.findIndex(named);
    const index = notebook.widgets[number] && (!name || named(notebook.widgets[number])) ? number : found;
    if (index < 0) return;
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, "start");
  }

  const isAssignment = (model) =>
    [...model.cells].some((cell) => cell.getMetadata("nbgrader")?.grade || cell.getMetadata("nbgrader")?.solution);

  // Validate and Submit above each notebook of an assignment, instead of nbgrader's own Validate.
  function addButtons(notebook, { ToolbarButton }, actions) {
    const { toolbar, context } = notebook;
    context.ready.then(() => {
      // Recognised by its class name, since on a busy machine its label appears later.
      const nbgraders = [...toolbar.children()].findIndex((one) => one.props?.className === "validate-button");
      if (nbgraders >= 0) [...toolbar.children()][nbgraders].dispose();
      if (!isAssignment(context.model)) return;
      let place = 0; // on a narrow screen JupyterLab folds what comes last
      for (const [name, label, tooltip, onClick] of actions) {
        const button = new ToolbarButton({ label, tooltip, onClick: () => onClick(context) });
        button.addClass(`course-${name}`);
        toolbar.insertItem(place++, `course-${name}`, button);
      }
    });
  }

  // A notebook does not count as unsaved because its kernel has reported its version. If it is read-only,
  // only changed cells count.
  function keepClean({ context }) {
    context.ready.then(() => {
      const { model } = context;
      const writable = context.contentsModel?.writable !== false;
      let edited = false;
      const edit = () => { edited = true; };
      model.cells.changed.connect(edit);
      for (const cell of model.cells) {
        cell.contentChanged.connect(edit);
        if (writable) cell.metadataChanged.connect(edit);
      }
      const clean = () => setTimeout(() => { if (!edited && !model.isDisposed) model.dirty = false; });
      const kernels = ["kernelspec", "language_info"];
      if (writable) model.metadataChanged.connect((_, { key }) => kernels.includes(key) ? clean() : edit());
      else model.stateChanged.connect((_, { name }) => { if (name === "dirty" && model.dirty) clean(); });
      clean();
    });
  }

  // Submit in the Assignment List shows no result, so this announces the new receipt.
  async function announce(Notification, live, base, open) {
    const receipts = async () => {
      const { page } = await live.fetched(`${base}course`);
      return new Map([...page.querySelectorAll("[data-receipt]")].map((link) => [link.getAttribute("href"), link]));
    };
    let known = receipts().catch(() => new Map());
    new PerformanceObserver((list) => {
      if (!list.getEntries().some((one) => one.name.split("?")[0].endsWith("/assignments/submit"))) return;
      known = known.then(async (before) => {
        const now = await receipts().catch(() => before);
        for (const [url, link] of now) {
          if (before.has(url)) continue;
          const actions = [{ label: "Receipt", callback: () => open(url) }];
          Notification.success(link.dataset.receipt, { autoClose: 15000, actions });
        }
        return now;
      });
    }).observe({ type: "resource" });
  }

  function plugin(modules, live) {
    const [apputils, launcher, menus, coreutils, ui, widgets] = modules;
    return {
      id: `${NAME}:pages`,
      description: "The course's start page and jobs.",
      autoStart: true,
      optional: [launcher.ILauncher, apputils.ICommandPalette, menus.IMainMenu],
      activate: (app, cards, palette, menu) => {
        const { commands, shell } = app;
        const base = coreutils.PageConfig.getBaseUrl().replace(location.origin, "");
        const icon = new ui.LabIcon({ name: `${NAME}:course`, svgstr: MAP });
        let widget, side;
        const lab = {
          open: async (path, cell, name) => {
            const opened = await commands.execute("docmanager:open", {
              path,
              factory: path.endsWith(".md") ? "Markdown Preview" : undefined,
            });
            if (opened && (cell !== undefined || name)) await reveal(opened, cell, name);
          },
          page: (url) => commands.execute("course:start", { url }),
          save: async (path) => {
            const open = [...shell.widgets("main")].filter((one) => one.context?.path === path && one.context.model.dirty);
            await Promise.all(open.map((one) => one.context.save()));
            return open.every((one) => !one.context.model.dirty); // else JupyterLab has said why
          },
        };
        const Panel = makePanel(widgets, live, base, lab);
        const make = () => {
          const content = new Panel();
          const made = new apputils.MainAreaWidget({ content });
          made.id = NAME;
          made.title.closable = true;
          made.title.icon = icon;
          made.title.label = "Course";
          content.title.changed.connect(() => { made.title.label = content.title.label; });
          return made;
        };
        const beside = () => {
          if (!side) {
            side = new Panel(true);
            side.id = `${NAME}-side`;
            side.title.icon = new ui.LabIcon({ name: `${NAME}:validate`, svgstr: CHECK });
            side.title.caption = "Validate";
            side.node.style.minWidth = `${Math.min(340, innerWidth - 100)}px`; // a phone shows the bar that closes it
            shell.add(side, "right", { rank: 50 });
          }
          shell.activateById(side.id);
          return side;
        };
        const validate = async ({ path }) => {
          if (!(await lab.save(path))) return;
          beside().run(`${base}course/validate?of=${encodeURIComponent(path)}`);
        };
        const handIn = async ({ path }) => {
          if (!(await lab.save(path))) return;
          beside().load(`${base}course/hand-in?of=${encodeURIComponent(path.split("/").at(-2) ?? "")}`);
        };
        const check = async ({ path }) => {
          if (!(await lab.save(path))) return;
          beside().load(`${base}course/check?of=${encodeURIComponent(path.split("/").at(-2) ?? "")}`);
        };
        // The start page shows whether the hub has the official check, and links instructors to the class page.
        const start = live.fetched(`${base}course`).then(({ page }) => page, () => document.createElement("p"));
        const official = start.then((page) =>
          page.querySelector("[data-check]") ? [["check", "Check", "Save, and check with hidden tests, without submitting", check]] : [],
        );
        const actions = (more) => [
          ["validate", "Validate", "Save, run the visible tests and show which pass", validate],
          ...more,
          ["hand-in", "Submit", "Save, and submit the assignment", handIn],
        ];
        app.docRegistry.addWidgetExtension("Notebook", {
          createNew: (notebook) => {
            official.then((more) => notebook.isDisposed || addButtons(notebook, apputils, actions(more)));
            keepClean(notebook);
          },
        });
        const pages = {
          "course:start": ["Start Page", "Lectures, assignments, running jobs", MAP, "course"],
          "course:jobs": ["Jobs", "Running and finished jobs: progress, curves, logs, cancel", BARS, "course/jobs"],
        };
        Object.entries(pages).forEach(([command, [label, caption, svgstr, page]], rank) => {
          commands.addCommand(command, {
            label,
            caption,
            icon: new ui.LabIcon({ name: command, svgstr }),
            describedBy: { args: { type: "object", properties: {} } },
            execute: ({ url } = {}) => {
              if (!widget || widget.isDisposed) widget = make();
              if (!widget.isAttached) shell.add(widget, "main");
              shell.activateById(widget.id);
              return widget.content.load(url || base + page);
            },
          });
          cards?.add({ command, category: "Course", rank });
          palette?.addItem({ command, category: "Course" });
        });
        if (menu) {
          const own = new widgets.Menu({ commands });
          own.title.label = "Course";
          own.id = `jp-mainmenu-${NAME}`;
          Object.keys(pages).forEach((command) => own.addItem({ command }));
          menu.addMenu(own, true, { rank: 900 });
          start.then((page) => {
            const link = page.querySelector("#class-page");
            if (!link) return;
            commands.addCommand("course:class", {
              label: "Class Page",
              caption: "Release, collect, grade, release feedback; in a new tab",
              icon: new ui.LabIcon({ name: "course:class", svgstr: CLASS }),
              describedBy: { args: { type: "object", properties: {} } },
              execute: () => void window.open(link.getAttribute("href"), "_blank", "noopener"),
            });
            own.addItem({ command: "course:class" });
            palette?.addItem({ command: "course:class", category: "Course" });
          });
        }
        // The course starts with its map. It is opened in front if no other document was opened, else
        // behind, and not again on a reload.
        app.restored.then(() => {
          if (innerWidth <= 640) shell.collapseLeft?.(); // its list of files would leave no room for a page
          const others = [...shell.widgets("main")].some((one) => !one.id.startsWith("launcher"));
          if (!others) commands.execute("course:start");
          else if (performance.getEntriesByType("navigation")[0]?.type !== "reload") {
            widget = make();
            shell.add(widget, "main", { activate: false });
            widget.content.load(base + "course");
          }
        });
        announce(apputils.Notification, live, base, lab.page);
      },
    };
  }

  async function get() {
    const names = ["apputils", "launcher", "mainmenu", "coreutils", "ui-components"].map((name) => `@jupyterlab/${name}`);
    const modules = await Promise.all([...names, "@lumino/widgets"].map(load));
    const ours = `${modules[3].PageConfig.getBaseUrl()}static/course_panel/`;
    const [live, notebooks] = await Promise.all(["live.js", "notebooks.js"].map((name) => import(ours + name)));
    notebooks.dress(ours);
    const made = plugin(modules, live);
    return () => ({ __esModule: true, default: made });
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB[NAME] = { init: (scope) => { shared = scope; }, get };
})();
