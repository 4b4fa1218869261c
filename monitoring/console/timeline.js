// Alarms over time: one row for each server, one bar for each alarm from when it was raised until it was cleared.
import { svg } from "./graph.js";
import { clock, seconds, tick } from "./format.js";

const kMostRows = 30;

export function ticks(from, to, most = 7) {
  const span = to - from;
  const steps = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const step = steps.find((s) => span / s <= most) ?? 86400;
  const list = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) list.push(at);
  return list;
}

export function timeline(alarms, now, minutes, width) {
  const from = now - minutes * 60;
  const shown = alarms.filter((a) => a.raised_unix_s <= now + 60 && (a.cleared_unix_s === 0 || a.cleared_unix_s >= from));
  const rows = [...new Set(shown.map((a) => a.server || "unknown"))].sort().slice(0, kMostRows);
  const left = width < 620 ? 96 : 150, right = 14, row = 24, top = 6;
  const height = top + Math.max(rows.length, 1) * row + 24;
  const x = (at) => left + ((Math.max(at, from) - from) / (now - from)) * (width - left - right);
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": shown.length === 0 ? "No alarms in this time" : `${shown.length} alarms on ${rows.length} servers` });
  for (const at of ticks(from, now, width < 620 ? 4 : 7)) {
    root.append(svg("line", { x1: x(at), x2: x(at), y1: top, y2: height - 20, class: "axis" }));
    root.append(svg("text", { x: x(at), y: height - 5, class: "small", "text-anchor": "middle" }, tick(at, minutes * 60)));
  }
  rows.forEach((name, i) => {
    const y = top + i * row;
    const most = width < 620 ? 13 : 21;
    root.append(svg("text", { x: 4, y: y + 16 }, name.length > most ? name.slice(0, most - 1) + "…" : name));
    root.append(svg("line", { x1: left, x2: width - right, y1: y + row - 2, y2: y + row - 2, class: "axis" }));
  });
  for (const alarm of shown) {
    const i = rows.indexOf(alarm.server || "unknown");
    if (i < 0) continue;
    const begin = x(alarm.raised_unix_s), end = x(alarm.cleared_unix_s || now);
    const bar = svg("rect", { x: begin, y: top + i * row + 4, width: Math.max(end - begin, 4), height: row - 9, rx: 3,
      class: alarm.masked || alarm.kind === "slow" || alarm.kind === "host" ? "bar masked" : "bar" });
    const lasted = seconds((alarm.cleared_unix_s || now) - alarm.raised_unix_s);
    bar.append(svg("title", {}, `${clock(alarm.raised_unix_s)}, ${lasted}${alarm.cleared_unix_s ? "" : " so far"}\n${alarm.line_of_text}`));
    root.append(bar);
  }
  if (rows.length === 0) root.append(svg("text", { x: left, y: top + 16, class: "small" }, "Nothing was wrong in this time."));
  return root;
}
