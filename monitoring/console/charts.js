// Plots of the cluster, or of one server, over hours and days, from what the monitor recorded.
import { askMonitor } from "./ask.js";
import { by, element } from "./dom.js";
import { bytes, grouped, percent, rate, seconds } from "./format.js";
import { chart } from "./plot.js";

const kOperations = ["find", "change", "read", "write"];
const requests = (operation) => `kintsugi_requests_total{operation="${operation}"}`;
const busy = (operation) => `kintsugi_request_seconds_total{operation="${operation}"}`;
const binary = (write) => Object.assign(write, { binary: true });
const perSecond = (v) => `${v >= 100 ? v.toFixed(0) : Number(v.toPrecision(2))}/s`;

// A line is a metric, or the quotient of two: seconds by requests is a latency.
const line = (label, metric, below = null) => ({ label, metric, below });
const kThroughput = { title: "Throughput of users", told: binary(rate), lines: [
  line("read", "kintsugi_chunkserver_read_bytes_total"), line("written", "kintsugi_chunkserver_written_bytes_total")] };
const operations = (names) => ({ title: "Operations", told: perSecond, lines: names.map((name) => line(name, requests(name))) });
const latency = (names) => ({ title: "Mean latency", told: seconds, lines: names.map((name) => line(name, busy(name), requests(name))) });

// These plots show what is missing, and how fast it is rebuilt.
export const kRepairPlots = [
  { title: "Stripes", told: grouped, lines: [line("degraded", "kintsugi_stripes_degraded"), line("without spare", "kintsugi_stripes_without_spare"),
    line("unreadable", "kintsugi_stripes_unreadable")] },
  { title: "Rebuilt by repairs", told: binary(rate), lines: [line("rebuilt", "kintsugi_repaired_bytes_total")] }];
export const kClusterPlots = [kThroughput, operations(kOperations), latency(kOperations),
  { title: "Stored, with parity", told: binary(bytes), lines: [line("on all servers", "kintsugi_chunkserver_stored_bytes")] }, ...kRepairPlots];

const nameOf = (path) => path.split("/").slice(-2).join("/");
// disks: the paths of the server's disks.
export const serverPlots = (disks) => [kThroughput, operations(["read", "write"]), latency(["read", "write"]),
  { title: "Disks busy", told: percent, lines: disks.slice(0, 8).map((disk) => line(nameOf(disk), `kintsugi_disk_busy_seconds_total{disk="${disk}"}`)) },
  { title: "Memory", told: binary(bytes), lines: [line("resident", "rss")] }];

// The quotient of two series at the times that both have.
function quotient(above, below) {
  const at = new Map(below.points.map((point) => [point[0], point[2]]));
  return above.points.filter(([t]) => at.get(t) > 0).map(([t, , mean]) => [t, mean / at.get(t), mean / at.get(t), mean / at.get(t)]);
}

// Turns the monitor's answer into the series of one plot: one for each line.
export function seriesOf(answer, lines) {
  const none = { kind: "gauge", points: [] };
  const found = (metric) => answer.series.find((one) => one.metric === metric) ?? none;
  return lines.map(({ label, metric, below }) => ({ server: label, metric: label, kind: found(metric).kind,
    points: below ? quotient(found(metric), found(below)) : found(metric).points }));
}

function drawn(plots, answer, width) {
  return plots.map(({ title, told, lines }) => element("figure", "card", element("figcaption", "", title),
    ...chart({ ...answer, restarts: [], series: seriesOf(answer, lines) }, told, width, 170)));
}

async function answered(query) {
  return (await askMonitor(`metrics?${query}`, 20000)).json();
}

// One question may have so many names at most (MetricsQuery::kMostNames).
const kMostNames = 20;

let asked = 0; // number of the last question: an older answer is dropped

// Asks for the plots of a server, or without a name of the whole cluster, and puts them into `place`.
export async function drawCharts(place, plots, minutes, server = null) {
  const number = ++asked;
  const names = [...new Set(plots.flatMap(({ lines }) => lines.flatMap((one) => [one.metric, one.below]).filter(Boolean)))].slice(0, kMostNames);
  const query = new URLSearchParams({ names: names.join(","), since: String(minutes * 60), ...(server === null ? { sum: "yes" } : { server }) });
  const answer = await answered(query);
  if (number !== asked) return;
  const body = by(place), columns = body.clientWidth > 900 ? 2 : 1;
  const width = Math.max((body.clientWidth - (columns - 1) * 13) / columns - 38, 260);
  body.replaceChildren(...drawn(plots, answer, width));
  body.dataset.ready = "yes";
}
