// Forms of dates begin with the time zone of who fills them in, which the server cannot know; the present due date, too.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) for (const input of document.querySelectorAll("input[data-zone]")) input.value = zone;
for (const form of zone ? document.querySelectorAll("[data-due]") : []) {
  const due = new Date(form.dataset.due);
  const two = (n) => String(n).padStart(2, "0");
  form.querySelector("[name=date]").value = `${due.getFullYear()}-${two(due.getMonth() + 1)}-${two(due.getDate())}`;
  form.querySelector("[name=time]").value = `${two(due.getHours())}:${two(due.getMinutes())}`;
}
