// Keeps a page of the course up to date by replacing elements with data-live when the server's copy
// differs.
const EVERY = 3000; // milliseconds

export function parse(text) {
  return new DOMParser().parseFromString(text, "text/html");
}

// On JupyterHub a cookie is sufficient only when the browser navigates to a page. Requests of a script need
// the token.
const token = () => document.cookie.match(/(?:^|;\s*)_xsrf=([^;]*)/)?.[1] ?? "";

export async function fetched(url, options = {}) {
  const answer = await fetch(url, { credentials: "same-origin", headers: { "X-XSRFToken": token() }, ...options });
  const html = (answer.headers.get("Content-Type") || "").startsWith("text/html");
  if (!html) throw new Error(`${answer.status} ${answer.statusText}`);
  return { page: parse(await answer.text()), url: answer.url, status: answer.status };
}

// A moment is written in the course's time zone. If the reader's time zone differs, the time there is
// added.
const MOMENT = /\w{3} \d{1,2} \w{3}(?: \d{4})?, \d\d:\d\d(?::\d\d)? \S+$/;

export function localise(root) {
  for (const mark of root.querySelectorAll("time[datetime]:empty")) {
    const text = mark.previousSibling;
    const course = text?.nodeType === Node.TEXT_NODE && text.data.match(MOMENT)?.[0];
    if (!course) continue;
    const [day, clock] = course.split(", ");
    const [hours, zone] = clock.split(" ");
    const fields = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
    if (/\d{4}$/.test(day)) fields.year = "numeric";
    if (hours.length > 5) fields.second = "2-digit";
    const format = new Intl.DateTimeFormat("en-GB", { ...fields, timeZoneName: "short" });
    const part = Object.fromEntries(format.formatToParts(new Date(mark.dateTime)).map((one) => [one.type, one.value]));
    const ownDay = [part.weekday, part.day, part.month, part.year].filter(Boolean).join(" ");
    const ownHours = [part.hour, part.minute, part.second].filter(Boolean).join(":");
    if (ownDay === day && ownHours === hours) continue;
    text.data = text.data.slice(0, -course.length);
    mark.textContent = `${ownDay}, ${ownHours} ${part.timeZoneName} (${ownDay === day ? "" : `${day}, `}${hours} ${zone})`;
  }
}

const answers = new WeakMap(); // the server's last copy of each part; a script may have changed the part shown

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
    localise(now);
    const places = [...old.querySelectorAll(".scrolled")].map((part) => [part.scrollLeft, part.scrollTop]);
    old.replaceChildren(...now.childNodes);
    old.querySelectorAll(".scrolled").forEach((part, n) => places[n] && part.scrollTo(...places[n]));
    if (focused) root.querySelector(`#${CSS.escape(focused)}`)?.focus({ preventScroll: true });
    if (old.tagName === "PRE" && atEnd) old.scrollTop = old.scrollHeight;
  }
}

// Polls while the page is visible. `where` returns the address to show, or "" to keep the page. Returns a stop function.
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
        // the server is unreachable, so the page is kept until the next attempt
      }
    }
  })();
  return () => { stopped = true; };
}
