// Keeps a page of the course up to date: what carries data-live is exchanged when the server's copy differs.
const EVERY = 3000; // milliseconds

export function parse(text) {
  return new DOMParser().parseFromString(text, "text/html");
}

// On JupyterHub a cookie alone counts only where the browser goes to a page; what a script asks needs the token.
const token = () => document.cookie.match(/(?:^|;\s*)_xsrf=([^;]*)/)?.[1] ?? "";

export async function fetched(url, options = {}) {
  const answer = await fetch(url, { credentials: "same-origin", headers: { "X-XSRFToken": token() }, ...options });
  const html = (answer.headers.get("Content-Type") || "").startsWith("text/html");
  if (!html) throw new Error(`${answer.status} ${answer.statusText}`);
  return { page: parse(await answer.text()), url: answer.url, status: answer.status };
}

const answers = new WeakMap(); // of each part the server's last copy: a script may have changed what is shown

export function renew(root, page) {
  for (const old of root.querySelectorAll("[data-live]")) {
    const now = page.getElementById(old.id);
    if (!now || now.innerHTML === (answers.get(old) ?? old.innerHTML)) continue;
    answers.set(old, now.innerHTML);
    for (const part of old.querySelectorAll("details[id][open]")) {
      const again = page.getElementById(part.id);
      if (again) again.open = true;
    }
    const atEnd = old.scrollTop + old.clientHeight >= old.scrollHeight - 4;
    const within = root.activeElement ?? document.activeElement;
    const focused = old.contains(within) && within !== old ? within.id : "";
    const places = [...old.querySelectorAll(".scrolled")].map((part) => [part.scrollLeft, part.scrollTop]);
    old.replaceChildren(...now.childNodes);
    old.querySelectorAll(".scrolled").forEach((part, n) => places[n] && part.scrollTo(...places[n]));
    if (focused) root.querySelector(`#${CSS.escape(focused)}`)?.focus({ preventScroll: true });
    if (old.tagName === "PRE" && atEnd) old.scrollTop = old.scrollHeight;
  }
}

// Looks again and again while the page is seen; `where` says what is shown then, or "" to leave it. Returns a stop.
export function follow(root, where, seen) {
  let stopped = false;
  (async () => {
    while (!stopped) {
      await new Promise((done) => setTimeout(done, EVERY));
      const url = where();
      if (stopped || !url || document.hidden || !seen() || !root.querySelector("[data-live]")) continue;
      try {
        const { page, status } = await fetched(url);
        if (status === 200 && where() === url) renew(root, page);
      } catch {
        // the server is away: the page stays as it was, and the next look may find it again
      }
    }
  })();
  return () => { stopped = true; };
}
