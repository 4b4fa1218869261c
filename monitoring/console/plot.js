// Draws metrics over time: for each series a line of means, and behind it what lies between its least and its most.
import { svg } from "./graph.js";
import { element } from "./dom.js";
import { clock, counted, tick } from "./format.js";
import { ticks } from "./timeline.js";

const kMostLines = 12;

// Whole steps of 1, 2 or 5 times a power of ten; of bytes, powers of two.
function levels(low, high, about, binary) {
  const raw = (high - low) / about, power = 10 ** Math.floor(Math.log10(raw));
  const step = binary ? 2 ** Math.max(0, Math.ceil(Math.log2(raw))) : [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) ?? 10 * power;
  const list = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) list.push(i * step);
  return list;
}

// The runs of points between which no step is missing.
function runs(points, step) {
  const list = [];
  points.forEach((point, i) => {
    if (i === 0 || point[0] - points[i - 1][0] > 3.5 * step) list.push([]);
    list.at(-1).push(point);
  });
  return list;
}

const kLeft = 74, kRight = 12;  // pixels beside the plot
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function plot(data, told, width, height) {
  const series = data.series.filter((one) => one.points.length > 0).slice(0, kMostLines);
  const from = data.since_unix_s, to = data.now_unix_s;
  const left = kLeft, right = kRight, top = 10, bottom = height - 24;
  const all = series.flatMap((one) => one.points);
  let low = Math.min(0, ...all.map((p) => p[1])), high = Math.max(...all.map((p) => p[3]));
  // A metric that moves little far above zero is shown from near its least value on.
  const least = Math.min(...all.map((p) => p[1]));
  if (least > 0 && high - least < 0.2 * high) low = least - 0.1 * (high - least);
  if (!(high > low)) [low, high] = [low - (Math.abs(low) * 0.1 || 1) * (low === 0 ? 0 : 1), high + (Math.abs(high) * 0.1 || 1)];
  const x = (t) => left + ((t - from) / (to - from)) * (width - left - right);
  const y = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": series.length ? `${series[0].metric} of ${series.map((one) => one.server).join(", ")}, from ${told(Math.min(...all.map((p) => p[1])))} to ${told(high)}` : "Nothing is known of this time" });
  for (const level of all.length ? levels(low, high, width < 620 ? 4 : 5, told.binary) : []) {
    root.append(svg("line", { x1: left, x2: width - right, y1: y(level), y2: y(level), class: "axis" }));
    root.append(svg("text", { x: left - 6, y: y(level) + 4, class: "small", "text-anchor": "end" }, told(level)));
  }
  for (const at of ticks(from, to, width < 400 ? 4 : 7)) {
    root.append(svg("line", { x1: x(at), x2: x(at), y1: top, y2: bottom, class: "axis" }));
    root.append(svg("text", { x: Math.min(x(at), width - 30), y: height - 6, class: "small", "text-anchor": "middle" }, tick(at, to - from)));
  }
  for (const restart of series.length === 1 ? data.restarts : []) {
    if (restart.server !== series[0].server || restart.unix_s < from) continue;
    const line = svg("line", { x1: x(restart.unix_s), x2: x(restart.unix_s), y1: top, y2: bottom, class: "restart" });
    line.append(svg("title", {}, `${clock(restart.unix_s)}: ${restart.server} began, or its recording`));
    root.append(line);
  }
  series.forEach((one, i) => {
    for (const run of runs(one.points, data.step_s)) {
      if (series.length <= 3 && run.length > 1)
        root.append(svg("path", { d: path([...run.map((p) => [x(p[0]), y(p[3])]), ...run.map((p) => [x(p[0]), y(p[1])]).reverse()]) + "Z", class: `band line-${i}` }));
      if (run.length > 1) root.append(svg("path", { d: path(run.map((p) => [x(p[0]), y(p[2])])), class: `line line-${i}` }));
      else root.append(svg("circle", { cx: x(run[0][0]), cy: y(run[0][2]), r: 2, class: `dot line-${i}` }));
    }
  });
  if (all.length === 0) root.append(svg("text", { x: left, y: top + 16, class: "small" }, "Nothing was recorded of it in this time."));
  return root;
}

// The point of each series that is nearest to a place in the plot. Returns its time and lines of text.
function pointed(data, told, fraction) {
  const at = data.since_unix_s + fraction * (data.now_unix_s - data.since_unix_s);
  const series = data.series.filter((one) => one.points.length > 0).slice(0, kMostLines);
  const near = series.map((one) => ({ one, point: one.points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a)) }))
    .filter(({ point }) => Math.abs(point[0] - at) <= 2 * data.step_s + 0.02 * (data.now_unix_s - data.since_unix_s));
  if (near.length === 0) return null;
  return { at: near[0].point[0], lines: near.map(({ one, point }) =>
    `${one.server}: ${told(point[2])}${point[3] > point[1] ? ` (${told(point[1])} to ${told(point[3])})` : ""}`) };
}

// The plot with the names of its lines, and a line that says what is below the pointer. data: as /api/v1/metrics answers
// it; told: writes a value with its unit. Returns elements.
export function chart(data, told, width, height) {
  const drawn = plot(data, told, width, height);
  const known = data.series.filter((one) => one.points.length > 0);
  const legend = element("p", "legend", ...known.slice(0, kMostLines).map((one, i) => element("span", "", element("i", `line-${i}`), one.server)),
    known.length > kMostLines ? `and ${counted(known.length - kMostLines, "other")}` : "");
  const say = element("p", "quiet pointed", "\u00a0");
  drawn.addEventListener("pointermove", (event) => {
    const box = drawn.getBoundingClientRect();
    const found = pointed(data, told, (event.clientX - box.left - kLeft) / (box.width - kLeft - kRight));
    say.textContent = found ? `${clock(found.at)} · ${found.lines.join(" · ")}` : "\u00a0";
  });
  return [drawn, legend, say];
}
