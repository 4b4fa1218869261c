// The flows of a recording, the longest first, or in another order: for what each was done, where it began, how long it lasted.
import { element, table } from "./dom.js";
import { grouped } from "./format.js";
import { lasted, moment } from "./trace_times.js";

const kMostListed = 1000;
const kColumns = [
  { name: "Request", by: (a, b) => a.title.localeCompare(b.title, "en") },
  { name: "Began in", by: (a, b) => a.process - b.process },
  { name: "At", number: true, by: (a, b) => a.begin - b.begin },
  { name: "Duration", number: true, by: (a, b) => b.lasted - a.lasted },
  { name: "Processes", number: true, by: (a, b) => b.processes.size - a.processes.size },
  { name: "Functions", number: true, by: (a, b) => b.calls - a.calls },
];

// Each title of a column is a button that sorts by it, and, pressed again, the other way around.
function sortable(head, { column, backwards }, sort) {
  [...head.children].forEach((th, i) => {
    const own = i === column, button = element("button", "plain", th.textContent, own ? (backwards ? " ▴" : " ▾") : "");
    button.type = "button";
    button.dataset.focus = `sort ${i}`;
    button.addEventListener("click", () => sort({ column: i, backwards: own && !backwards }));
    th.replaceChildren(button);
    if (own) th.setAttribute("aria-sort", (kColumns[i].number && i !== 2) === backwards ? "ascending" : "descending");
  });
}

// flows: indices; chosen: one of them, or -1; order: {column, backwards}. Returns elements.
export function flowList(recording, flows, chosen, order, { choose, sort }) {
  const by = kColumns[order.column].by, of = (index) => recording.flows[index];
  const sorted = [...flows].sort((a, b) => (order.backwards ? -1 : 1) * by(of(a), of(b)) || a - b);
  const rows = sorted.slice(0, kMostListed).map((index) => {
    const flow = of(index), button = element("button", "plain", flow.title);
    button.type = "button";
    button.setAttribute("aria-pressed", String(index === chosen));
    button.dataset.focus = `flow ${index}`;
    button.addEventListener("click", () => choose(index));
    return { className: index === chosen ? "chosen" : "", cells: [button, recording.processes[flow.process].short, moment(flow.begin, 1, 1000), lasted(flow.lasted),
      String(flow.processes.size), grouped(flow.calls)] };
  });
  if (rows.length === 0) return [element("div", "empty", "Nothing has that name.")];
  const made = table(kColumns, rows, "trace-flows");
  sortable(made[0].querySelector("thead tr"), order, sort);
  if (sorted.length > kMostListed) made.push(element("div", "empty", `${grouped(sorted.length - kMostListed)} more are not listed: search for them.`));
  return made;
}
