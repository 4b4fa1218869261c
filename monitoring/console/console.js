// The console: asks the monitor every two seconds for what the shown page needs, and draws what changed.
import { actions } from "./actions.js";
import { alarmsPage, drawAlarms } from "./alarms.js";
import { askMonitor, Refusal } from "./ask.js";
import { drawCharts, kClusterPlots, kRepairPlots, serverPlots } from "./charts.js";
import { drawClients } from "./clients.js";
import { drawLinks, drawModels, drawProcesses, drawRegions } from "./developers.js";
import { drawDisks } from "./disks.js";
import { by, element, whenUnfolded } from "./dom.js";
import { drawFiles } from "./files.js";
import { bytes, seconds, zone } from "./format.js";
import { cannotDraw, drawHealth, monitorIsSilent, monitorRefuses } from "./health.js";
import { history, historyShown } from "./history.js";
import { drawOverview } from "./overview.js";
import { drawRepairs } from "./repairs.js";
import { search } from "./search.js";
import { drawServer, drawServers } from "./servers.js";
import { drawTraces, traces } from "./trace_page.js";
import { unlike } from "./unlike.js";
import { whatIf, whatIfServers } from "./what_if.js";

const kPoll = 2000; // milliseconds
const kTimes = [["1 h", 60], ["6 h", 360], ["24 h", 1440], ["7 d", 10080], ["30 d", 43200]]; // of plots, in minutes
const kAlways = ["overview", "servers", "alarms", "processes"]; // documents that every page needs
const kPages = {
  overview: { needs: ["repairs"], draw: drawOverview },
  servers: { needs: [], draw: drawServersPage },
  disks: { needs: ["devices"], draw: drawDisks },
  clients: { needs: [], draw: drawClients },
  repairs: { needs: ["repairs"], draw: (data) => { drawRepairs(data); whatIfServers(data.servers); } },
  alarms: { needs: [], draw: drawAlarms },
  files: { needs: ["names"], draw: drawFiles },
  developers: { needs: ["regions", "models", "devices"], draw: (data) => { drawRegions(data.regions); drawModels(data.models); drawLinks(data.devices); drawProcesses(data.processes); } },
  traces: { needs: [], draw: drawTraces },
};

const texts = new Map();  // the documents as they came
const data = {};          // and as objects
let drawn = "";           // page and documents that were drawn last
let lastAnswer = Date.now();
let disks = [];           // of the server that is shown
let minutes = 60;         // of the plots

// Returns the page that the address names, and what is shown of it: "servers" and "chunkserver-3" of "#servers/chunkserver-3".
function where() {
  const [page, ...rest] = location.hash.slice(1).split("/");
  try {
    if (Object.hasOwn(kPages, page)) return { page, of: decodeURIComponent(rest.join("/")) };
  } catch (error) {
    // A link that was cut off in the middle of a letter names nothing.
  }
  return { page: "overview", of: "" };
}

function drawServersPage(all, of) {
  if (of === "") drawServers(all);
  disks = drawServer(all, of) ?? [];
}

// Whoever is on the page with the keyboard stays where they are.
function redraw() {
  const { page, of } = where(), focus = document.activeElement?.dataset.focus;
  if (![...kAlways, ...kPages[page].needs].every((name) => data[name])) return;
  drawHealth(data);
  kPages[page].draw(data, of);
  by("footer").textContent = `Times are in 24 hours, ${zone()} · monitor ${data.overview.monitor.address}, up for ${seconds(data.overview.monitor.uptime_s)} · metaserver ${data.overview.metaserver.address} · ` +
    `${data.overview.reports.accepted} reports, ${data.overview.reports.refused + data.overview.reports.too_many} refused · ${bytes(data.overview.monitor.kept_bytes)} kept`;
  document.body.dataset.ready = page;
  if (!focus || document.activeElement?.dataset.focus === focus) return;
  document.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
}

async function refresh(name) {
  const text = await (await askMonitor(name, 10000)).text();
  if (texts.get(name) === text) return;
  texts.set(name, text);
  data[name] = JSON.parse(text);
}

async function look() {
  const { page, of } = where(), needs = [...kAlways, ...kPages[page].needs];
  try {
    await Promise.all(needs.map(refresh));
  } catch (error) {
    error instanceof Refusal ? monitorRefuses(error) : monitorIsSilent(lastAnswer);
    return;
  }
  lastAnswer = Date.now();
  delete document.body.dataset.old;
  const now = JSON.stringify([page, of, ...needs.map((name) => texts.get(name))]);
  if (now !== drawn) redraw();
  drawn = now;
}

async function poll() {
  // Also after what could not be drawn: a page that no longer asks would look as if all were well.
  try {
    await look();
  } catch (error) {
    cannotDraw(error);
  }
  setTimeout(poll, document.hidden ? 5 * kPoll : kPoll);
}

// ---- plots

// Returns the arguments of drawCharts() for the page that is shown; null: it has no plots.
function plotsShown() {
  const { page, of } = where();
  if (page === "overview") return ["overview-charts", kClusterPlots, minutes];
  if (page === "repairs") return ["repair-charts", kRepairPlots, minutes];
  return page === "servers" && of !== "" ? ["server-charts", serverPlots(disks), minutes, of] : null;
}

let waiting;
async function plots() {
  clearTimeout(waiting);
  const shown = plotsShown();
  try {
    if (shown && !document.hidden) await drawCharts(...shown);
  } catch (error) {
    // The sentence at the top says that the monitor does not answer, or what it answers.
  }
  clearTimeout(waiting);
  // The monitor reads all rows of that time: the longer it is, the longer the plots may stay as they are.
  waiting = setTimeout(plots, minutes <= 60 ? 10000 : minutes <= 1440 ? 60000 : 300000);
}

// ---- pages

async function show() {
  const { page } = where();
  for (const one of document.querySelectorAll(".page")) one.hidden = one.id !== `page-${page}`;
  for (const one of document.querySelectorAll("nav a")) {
    if (one.hash === `#${page}`) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  scrollTo(0, 0);
  by("server-charts").replaceChildren(); // those of another server
  await look();
  plots();
  if (page === "developers") historyShown();
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}

by("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = dark === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next);
  setTheme(next);
});
document.querySelector("nav").addEventListener("keydown", (event) => {
  const step = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
  const next = step && document.activeElement[step];
  if (!next) return;
  next.focus();
  location.hash = next.hash;
});
for (const group of document.querySelectorAll("[data-plots]")) {
  group.append(...kTimes.map(([text, length]) => {
    const button = element("button", "", text);
    button.type = "button";
    button.dataset.minutes = length;
    button.setAttribute("aria-pressed", String(length === minutes));
    return button;
  }));
  group.addEventListener("click", (event) => {
    const chosen = event.target.closest("button");
    if (!chosen) return;
    minutes = Number(chosen.dataset.minutes);
    for (const button of document.querySelectorAll("[data-plots] button")) button.setAttribute("aria-pressed", String(Number(button.dataset.minutes) === minutes));
    plots();
  });
}
let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { redraw(); plots(); }, 150);
});
addEventListener("hashchange", () => show().catch(cannotDraw));
const asks = new URLSearchParams(location.search);
setTheme(asks.get("theme") ?? localStorage.getItem("theme"));
if (asks.get("metric") && !location.hash) location.hash = "#developers";
whenUnfolded(redraw);
alarmsPage(redraw);
search(() => data);
actions();
history();
unlike();
whatIf();
traces();
show().catch(cannotDraw).then(() => setTimeout(poll, kPoll));
