// The section of metrics over time: which metric of which daemon, how far back, and the plot.
import { askMonitor } from "./ask.js";
import { by, element } from "./dom.js";
import { bytes, rate, seconds } from "./format.js";
import { chart } from "./plot.js";

const kEvery = 5000;    // between two looks at a plot of few minutes; longer times are looked at less often
const kFirst = ["rss", "cpu_ns", "fds"];  // shown first, of those that there are
let servers = [];       // names of daemons and their metrics
let data = null;        // the last answer
let minutes = 60;
let asked = 0;          // number of the last question: an older answer is dropped

const server = () => by("history-server").value;
const metric = () => by("history-metric").value;

// Metrics in groups that people look for.
function group(name) {
  if (name.startsWith("kintsugi_module_open")) return "Open executions by region";
  if (name.startsWith("kintsugi_disk")) return "Disks";
  return name.startsWith("kintsugi_") ? "Of the daemon itself" : "Of the process, from the kernel";
}

function unit(name, kind) {
  const number = (v) => Math.abs(v) >= 1e6 || (v !== 0 && Math.abs(v) < 0.01) ? v.toExponential(1) : String(Number(v.toPrecision(3)));
  const base = name.split("{")[0];
  const memory = /bytes|^rss$|^RssAnon$|^Vm|^vsize$|^tcp_mem$|^[rw]char$/.test(base);
  const signed = (write) => (v) => (v < 0 ? `−${write(-v)}` : write(v));
  const ofMemory = (write) => Object.assign(signed(write), { binary: true });
  const share = (v) => (v === 0 ? "0" : `${(v * 100).toFixed(v < 0.1 ? 1 : 0)} %`);
  if (kind === "counter") {
    if (memory) return ofMemory(rate);
    // Seconds in a second, of which there are so many processors.
    if (/_ns$/.test(base)) return (v) => share(v / 1e9);
    if (/^[us]time$|seconds_total$/.test(base)) return share;
    return (v) => `${number(v)}/s`;
  }
  if (memory) return ofMemory(bytes);
  return /seconds/.test(base) ? signed(seconds) : number;
}

function option(value, text) {
  const made = element("option", "", text);
  made.value = value;
  return made;
}

function fillMetrics() {
  const before = metric(), kinds = new Map();
  for (const one of servers)
    if (server() === "" || one.name === server()) for (const m of one.metrics) kinds.set(m.name, m.kind);
  const groups = new Map();
  for (const name of [...kinds.keys()].sort()) groups.set(group(name), [...(groups.get(group(name)) ?? []), name]);
  by("history-metric").replaceChildren(...[...groups].sort(([a], [b]) => (a.startsWith("Of the process") ? -1 : b.startsWith("Of the process") ? 1 : a < b ? -1 : 1)).map(([title, names]) => {
    const made = element("optgroup", "", ...names.map((name) => option(name, name)));
    made.label = title;
    return made;
  }));
  const chosen = [before, ...kFirst].find((name) => kinds.has(name));
  if (chosen) by("history-metric").value = chosen;
}

function drawServers(list) {
  if (JSON.stringify(list) === JSON.stringify(servers)) return;
  const before = server();
  servers = list;
  by("history-server").replaceChildren(option("", "all daemons"), ...list.map((one) => option(one.name, one.name)));
  if (list.some((one) => one.name === before)) by("history-server").value = before;
  fillMetrics();
}

function draw() {
  const body = by("history-body");
  if (!data) return;
  const told = unit(metric(), data.series[0]?.kind ?? "gauge"), width = Math.max(body.clientWidth - 26, 280);
  body.replaceChildren(...chart(data, told, width, width < 620 ? 220 : 300));
}

function note({ recording }) {
  by("history-note").textContent = recording.stopped ? `not recorded now: ${recording.stopped}`
    : !recording.on ? "not recorded (setting metrics.record)" : `a row every ${seconds(recording.period_s)}, ${bytes(recording.bytes)} kept`;
}

async function ask(query) {
  return (await askMonitor(`metrics${query}`, 20000)).json();
}

async function look() {
  const number = ++asked;
  const list = await ask("");
  note(list);
  drawServers(list.servers);
  if (metric() === "") {
    by("history-body").replaceChildren(element("div", "empty", "No metrics have been recorded yet."));
    return;
  }
  const query = new URLSearchParams({ names: metric(), since: String(minutes * 60) });
  if (server()) query.set("server", server());
  const answer = await ask(`?${query}`);
  if (number !== asked) return;
  data = answer;
  draw();
}

let waiting;
async function follow() {
  clearTimeout(waiting);
  try {
    if (!document.hidden && by("history").checkVisibility()) await look();
    by("history").dataset.ready = "yes";
  } catch (error) {
    // The section at the top says that the monitor does not answer, or what it answers.
  }
  clearTimeout(waiting);
  waiting = setTimeout(follow, minutes <= 60 ? kEvery : 12 * kEvery);
}

// Its page is shown now.
export const historyShown = () => follow();

// Follows while its page is shown, and draws again whenever there is another width.
export function history() {
  const asks = new URLSearchParams(location.search);
  const chosen = { server: asks.get("server"), metric: asks.get("metric") };
  by("history-server").addEventListener("change", () => { fillMetrics(); follow(); });
  by("history-metric").addEventListener("change", follow);
  by("history-choices").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    minutes = Number(button.dataset.minutes);
    for (const one of button.parentElement.children) one.setAttribute("aria-pressed", String(one === button));
    follow();
  });
  addEventListener("resize", draw);
  follow().then(() => {
    if (!chosen.server && !chosen.metric) return;
    if (chosen.server !== null) by("history-server").value = chosen.server;
    fillMetrics();
    if (chosen.metric) by("history-metric").value = chosen.metric;
    return follow();
  });
}
