// Elements of the page, and what the reader has unfolded.

export const by = (id) => document.getElementById(id);
const kRowsShown = 15;
export const opened = new Set(); // keys of what the reader has unfolded
let redraw = () => {};
// `again`: draws the page that is shown again.
export const whenUnfolded = (again) => { redraw = again; };

export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export const empty = (text, good) => element("div", `card empty${good ? " good" : ""}`, text);
export const list = (items) => element("ul", "", ...items.map((item) => element("li", "", item)));
export const badge = (text, level = "") => element("span", `badge ${level}`, text);

export function link(to, ...children) {
  const made = element("a", "", ...children);
  made.href = to;
  made.dataset.focus = `link ${to} ${made.textContent}`;
  return made;
}

// What the reader has unfolded stays so when the page is drawn again.
export function unfolding(key, title, ...children) {
  const summary = element("summary", "", title);
  summary.dataset.focus = `summary ${key}`;
  const details = element("details", "", summary, ...children);
  details.open = opened.has(key);
  details.addEventListener("toggle", () => (details.open ? opened.add(key) : opened.delete(key)));
  return details;
}

// A bar of which a share is filled. Beside it stand the same numbers as text.
export function meter(share, level = "") {
  const fill = element("i", level);
  fill.style.width = `${Math.min(100, Math.max(0, share * 100)).toFixed(0)}%`;
  return element("div", "meter", fill);
}

// columns: {name, number}; rows: {cells, className}. Returns elements.
export function table(columns, rows, key) {
  const head = element("tr");
  for (const column of columns) {
    const th = element("th", column.number ? "number" : "", column.name);
    th.scope = "col";
    head.append(th);
  }
  const body = element("tbody");
  const all = opened.has(key);
  for (const row of all ? rows : rows.slice(0, kRowsShown)) {
    const tr = element("tr", row.className ?? "");
    row.cells.forEach((cell, i) => tr.append(element("td", columns[i].number ? "number" : "", cell)));
    body.append(tr);
  }
  const made = [element("table", "", element("thead", "", head), body)];
  if (rows.length > kRowsShown) {
    const button = element("button", "", all ? "Show fewer" : `Show all ${rows.length}`);
    button.type = "button";
    button.dataset.focus = `more ${key}`;
    button.addEventListener("click", () => {
      all ? opened.delete(key) : opened.add(key);
      redraw();
    });
    made.push(element("div", "more", button));
  }
  return made;
}

// A list of what something is: pairs of a name and a value. Pairs without a value are left out.
export function facts(pairs) {
  const made = element("dl", "facts");
  for (const [name, value] of pairs)
    if (value !== "" && value !== null && value !== undefined) made.append(element("div", "", element("dt", "", name), element("dd", "", value)));
  return made;
}
