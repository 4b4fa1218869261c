// What stands first on every page: whether all data is whole, what to do, and which parts of the cluster are there.
import { by, element, link } from "./dom.js";
import { bytes, counted, seconds } from "./format.js";

const kSigns = { good: "✓", warning: "!", bad: "✕" };
export const kSilent = 3; // seconds without a report: whoever has said nothing for longer is called silent

// Parts of the cluster: {name, level, state, title, to}.
export function partsOf({ overview, servers, processes }) {
  const answers = overview.metaserver.answers;
  const metaserver = servers.parts.find((part) => part.kind === "metaserver");
  const managers = processes.processes.filter((process) => process.kind === "repair-manager" && !process.ended);
  const silent = managers.filter((process) => process.silent_s > kSilent).length;
  const count = overview.servers, away = count.dead + count.suspect;
  const dead = servers.servers.filter((server) => server.liveness === "dead").map((server) => server.name);
  const users = processes.processes.filter(isUser).length;
  return [
    { name: "Metaserver", level: !answers ? "bad" : metaserver?.alarms.length ? "warn" : "", to: "#alarms", title: overview.metaserver.address,
      state: answers ? (metaserver?.alarms.length ? "has an alarm" : "answers") : overview.metaserver.answered_s_ago === null ? "has never answered" : `silent for ${seconds(overview.metaserver.answered_s_ago)}` },
    { name: "Monitor", level: overview.monitor.replaced ? "warn" : "", to: "#developers", title: overview.monitor.address,
      state: overview.monitor.replaced ? "replaced by a later one" : `up for ${seconds(overview.monitor.uptime_s)}` },
    { name: managers.length === 1 ? "Repair manager" : "Repair managers", level: managers.length === 0 ? "bad" : silent ? "warn" : "", to: "#repairs", title: "Rebuild what is lost",
      state: managers.length === 0 ? "none reports" : silent ? `${silent} of ${managers.length} silent` : managers.length === 1 ? "reports" : `all ${managers.length} report` },
    { name: "Chunkservers", level: !answers ? "warn" : count.dead ? "bad" : away || count.all === 0 ? "warn" : "", to: "#servers", title: "Store the chunks",
      state: !answers ? `${count.reporting} of ${count.all} report` : `${count.alive} of ${count.all} alive` + (dead.length > 0 && dead.length < 3 ? `, ${dead.join(" and ")} dead` : "") },
    { name: "Clients and mounts", level: "", to: "#clients", title: "Processes that use the cluster and report", state: counted(users, "process", "processes") },
  ];
}

export const isUser = (process) => ["client", "mount"].includes(process.kind) && !process.ended;

function part({ name, level, state, title, to }) {
  const made = link(to, element("b", "", name), element("span", "state", `${level === "bad" ? "✕ " : level === "warn" ? "! " : "✓ "}${state}`));
  made.className = `part ${level}`;
  made.title = title;
  return made;
}

// The second line: what is wrong besides, and whether anybody is held up.
function besides(overview) {
  if (overview.monitor.replaced) return "Another monitor was started later: this one is not asked any more.";
  const ending = overview.ending_alarms, others = overview.alarms - ending;
  const words = [overview.holding_alarms > 0 ? `Operations wait for ${counted(overview.holding_alarms, "culprit")}.`
    : others > 0 ? `${counted(others, "alarm")}; no operation is held up.` : "No operation is held up.",
    ending > 0 ? `${counted(ending, "resource")} will be used up.` : "",
    overview.space.total_bytes > 0 ? `${bytes(overview.space.free_bytes)} of ${bytes(overview.space.total_bytes)} free.` : ""];
  return words.filter(Boolean).join(" ");
}

function say(level, sentence, action) {
  const verdict = by("verdict");
  verdict.className = `verdict ${level}`;
  const text = `${kSigns[level]} ${sentence}`;
  if (verdict.textContent !== text) verdict.textContent = text;
  by("verdict-action").textContent = action;
}

export function drawHealth(data) {
  const { level, sentence, action } = data.overview.data;
  say(level, sentence, action);
  by("besides").className = data.overview.holding_alarms > 0 || data.overview.monitor.replaced ? "bad" : "";
  by("besides").textContent = besides(data.overview);
  by("parts").replaceChildren(...partsOf(data).map(part));
  const wrong = level === "bad" || data.overview.holding_alarms > 0;
  document.title = `${wrong ? "✕ " : level === "warning" ? "! " : ""}Kintsugi console`;
}

// Nothing else on the page can be trusted: it says so in place of the health of data.
function sayOld(sentence, action) {
  say("bad", sentence, action);
  by("besides").className = "";
  by("besides").textContent = "";
  document.body.dataset.old = "yes";
}

export function monitorIsSilent(since) {
  sayOld("The monitor does not answer: what is shown may be old.",
    `Last answer ${seconds((Date.now() - since) / 1000)} ago. Check that kintsugi-monitor and its machine run. The cluster works without it: \`kintsugi df\` says whether data is whole.`);
}

// It answers, and shows nothing: the token of this browser has ended, say, or the monitor has just started.
export function monitorRefuses({ status, message }) {
  const said = message.replace(/\.$/, "");
  if ([401, 403].includes(status)) sayOld(`The monitor refuses to show more: ${said}.`, "What is shown may be old. Load the page again, with a token of the role admin.");
  else if (status === 503) sayOld(`The monitor is not ready: ${said}.`, "What is shown may be old. The page asks again; if this stays, look into the log of kintsugi-monitor.");
  else sayOld(`The monitor answers with an error: ${said}.`, "What is shown may be old. Look into the log of kintsugi-monitor. The cluster works without it: `kintsugi df` says whether data is whole.");
}

// As after an upgrade of the monitor, whose documents this page, which was loaded before, does not understand.
export function cannotDraw(error) {
  sayOld("This page cannot show what the monitor answers: what is shown may be old.", `Load the page again. (${error.message})`);
  reportError(error); // for whoever looks at it with the tools of the browser
}
