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

// A moment is written in the course's time zone, with a mark behind it: it gets the reader's own, if that differs.
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
    localise(now);
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
