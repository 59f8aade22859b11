// JupyterLab's half of the course's pages: the menu Course, cards in the launcher, and a tab that shows a page.
// What JupyterLab asks of an extension's module (init, get) is written by hand here, so that no build is needed.
(() => {
  const NAME = "convolution-to-cluster";
  const draw = (way) =>
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="${way}"/></svg>`;
  const MAP = draw("M3 5l6-2 6 2 6-2v16l-6 2-6-2-6 2zm6 .2v12l6 1.9v-12z");
  const BARS = draw("M3 4h12v4H3zm0 6h18v4H3zm0 6h8v4H3z");
  let shared;

  async function load(name) {
    const versions = shared[name];
    if (!versions) throw new Error(`JupyterLab does not share ${name}`);
    return (await Object.values(versions)[0].get())();
  }

  function makePanel({ Widget }, { MainAreaWidget }, live, base, commands, icon) {
    class Panel extends Widget {
      constructor() {
        super();
        this.tree = this.node.attachShadow({ mode: "open" });
        this.node.style.overflow = "auto";
        this.url = "";
        this.tree.addEventListener("click", (event) => this.clicked(event));
        this.tree.addEventListener("submit", (event) => this.submitted(event));
        this.stop = live.follow(this.tree, () => this.url, () => this.isVisible);
      }

      async show(url, options) {
        let found;
        try {
          found = await live.fetched(url, options);
        } catch (error) {
          this.put(`<main id="content"><h1>The course's page does not answer</h1></main>`, url);
          return;
        }
        const opens = new URL(found.url).pathname.split(`${base}lab/tree/`)[1]; // the answer to a button
        if (opens) return void commands.execute("docmanager:open", { path: decodeURIComponent(opens) });
        const page = found.page.getElementById("page");
        if (!page) return void window.open(url, "_blank", "noopener"); // logged out, or an error page
        page.querySelectorAll(".outside").forEach((node) => node.remove()); // it is in JupyterLab already
        this.put(page.innerHTML, found.url);
        this.title.label = (found.page.title || "Course").split(" · ")[0];
      }

      put(html, url) {
        const dark = document.body.dataset.jpThemeLight === "false" ? " dark" : "";
        this.url = url;
        this.tree.innerHTML =
          `<link rel="stylesheet" href="${base}static/course_panel/panel.css"><div class="course${dark}">${html}</div>`;
        this.node.scrollTop = 0;
        this.tree.querySelector("main")?.focus({ preventScroll: true });
      }

      clicked(event) {
        const link = event.target.closest("a");
        if (!link || event.ctrlKey || event.metaKey || event.shiftKey || link.target) return;
        const path = new URL(link.href).pathname;
        if (link.dataset.open) commands.execute("docmanager:open", { path: link.dataset.open });
        else if (path === `${base}course` || path.startsWith(`${base}course/`)) this.show(link.href);
        else return;
        event.preventDefault();
      }

      submitted(event) {
        event.preventDefault();
        const body = new URLSearchParams(new FormData(event.target, event.submitter));
        this.show(event.target.action, { method: "POST", body });
      }

      dispose() {
        this.stop();
        super.dispose();
      }
    }
    return () => {
      const content = new Panel();
      const widget = new MainAreaWidget({ content });
      widget.id = NAME;
      widget.title.closable = true;
      widget.title.icon = icon;
      widget.title.label = "Course";
      content.title.changed.connect(() => { widget.title.label = content.title.label; });
      return widget;
    };
  }

  // Submit in the Assignment List says nothing: the receipt that is new after it is told.
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
        const make = makePanel(widgets, apputils, live, base, commands, icon);
        let widget;
        const pages = {
          "course:start": ["Start Page", "Lectures, assignments, jobs at work", MAP, "course"],
          "course:jobs": ["Jobs", "Running and finished jobs: progress, curves, logs, cancel", BARS, "course/jobs"],
        };
        Object.entries(pages).forEach(([command, [label, caption, svgstr, page]], rank) => {
          commands.addCommand(command, {
            label,
            caption,
            icon: new ui.LabIcon({ name: command, svgstr }),
            describedBy: { args: { type: "object", properties: {} } },
            execute: () => {
              if (!widget || widget.isDisposed) widget = make();
              if (!widget.isAttached) shell.add(widget, "main");
              shell.activateById(widget.id);
              return widget.content.show(base + page);
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
        }
        // The course begins with its map: in front where nothing else was opened, else behind; not again on a reload.
        app.restored.then(() => {
          const others = [...shell.widgets("main")].some((one) => !one.id.startsWith("launcher"));
          if (!others) commands.execute("course:start");
          else if (performance.getEntriesByType("navigation")[0]?.type !== "reload") {
            widget = make();
            shell.add(widget, "main", { activate: false });
            widget.content.show(base + "course");
          }
        });
        announce(apputils.Notification, live, base, (url) => {
          commands.execute("course:start").then(() => widget.content.show(url));
        });
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
