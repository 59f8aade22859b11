// The table of a class: search, filters, order, and the extension of one student. Search, filters and order are kept
// when live.js replaces the table.
const students = document.getElementById("students");
const find = document.getElementById("find");
const show = document.getElementById("show");
const extension = document.getElementById("extension");
let column = -1;
let upwards = true;

function value(row) {
  const cell = row.cells[column];
  return cell.dataset.value ?? cell.textContent.trim();
}

function compare(a, b) {
  const order = value(a).localeCompare(value(b), undefined, { numeric: true });
  return upwards ? order : -order;
}

function arrange() {
  const table = students.querySelector("table");
  if (!table || !find) return;
  const words = find.value.trim().toLowerCase();
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const fits = !show.value || row.dataset.facts.split("|").includes(show.value);
    row.hidden = !(fits && row.dataset.find.includes(words));
  }
  if (column >= 0) table.tBodies[0].append(...rows.sort(compare));
  for (const head of table.tHead.rows[0].cells) {
    const chosen = Number(head.firstElementChild?.dataset.column ?? -2) === column;
    if (chosen) head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  const seen = rows.filter((row) => !row.hidden).length;
  const text = seen < rows.length ? `${seen} of ${rows.length} students` : "";
  const shown = document.getElementById("shown");
  if (shown.textContent !== text) shown.textContent = text;
}

students.addEventListener("click", (event) => {
  const head = event.target.closest("button.sort");
  const row = event.target.closest("button[data-extend]");
  if (head) {
    upwards = Number(head.dataset.column) !== column || !upwards;
    column = Number(head.dataset.column);
    arrange();
  } else if (row) {
    extension.querySelector("[name=student]").value = row.dataset.extend;
    extension.showModal();
    extension.querySelector("[name=days]").focus();
  }
});
document.getElementById("no-extension")?.addEventListener("click", () => extension.close());
if (extension?.open) { // the answer to a form with an error: above the page from now on
  extension.close();
  extension.showModal();
}
for (const control of [find, show]) control?.addEventListener("input", arrange);
new MutationObserver(arrange).observe(students, { childList: true });
arrange();
