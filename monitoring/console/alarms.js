// Alarms: what happened, what it means, what to do; the evidence is folded away.
import { badge, by, element, empty, link, list, unfolding } from "./dom.js";
import { clock, counted, place, seconds } from "./format.js";
import { graph } from "./graph.js";
import { runbookOf } from "./runbooks.js";
import { timeline } from "./timeline.js";

let minutes = 60; // of the timeline

function chainOf(alarm, width) {
  if (alarm.chain.length === 0) return null;
  const nodes = alarm.chain.map((one, i) => ({
    id: i,
    title: one.server || "a process",
    // A device has no age of its own.
    lines: [one.region || one.role, [one.age_s > 0 ? seconds(one.age_s) : "", one.file ? place(one.file, one.line) : ""].filter(Boolean).join(" · ")],
    kind: i + 1 === alarm.chain.length ? "sink" : "",
  }));
  const edges = alarm.chain.slice(1).map((_, i) => ({ from: i, to: i + 1, label: alarm.chain[i].wait }));
  const words = alarm.chain.map((one) => `${one.server} in ${one.region || one.role}`).join(", which waits for ");
  const drawn = graph(nodes, edges, `Wait chain: ${words}`, width, "wide");
  drawn.dataset.focus = `chain ${alarm.id}`;
  return drawn;
}

// Tells a developer where in the code it is, and why the monitor thinks so.
function evidence(alarm) {
  const where = element("p", "", element("code", "", alarm.line_of_text));
  if (alarm.function) where.append(` in ${alarm.function}`);
  const words = [alarm.operations.length ? alarm.operations.slice(0, 3).join(", ") : "",
    alarm.measured_of > 0 ? `such verdicts were right ${alarm.measured_right} of ${alarm.measured_of} times in campaigns` : ""].filter(Boolean).join(" · ");
  return [where, words ? element("p", "quiet", words) : "", alarm.why.length ? list(alarm.why) : "",
    alarm.stack.length ? element("pre", "", alarm.stack.join("\n")) : ""];
}

export function alarmCard(alarm, width) {
  const mild = alarm.masked || ["slow", "host", "runs out"].includes(alarm.kind);
  const runbook = runbookOf(alarm);
  const facts = [alarm.since_s > 0 ? `for ${seconds(alarm.since_s)}` : "", alarm.factor > 1 ? `${alarm.factor.toFixed(1)} times slower` : "",
    alarm.waiters > 0 ? `${counted(alarm.waiters, "task")} wait${alarm.waiters === 1 ? "s" : ""}` + (alarm.servers_waiting.length ? ` on ${alarm.servers_waiting.join(", ")}` : "") : "",
    `raised ${clock(alarm.raised_unix_s)}`].filter(Boolean).join(" · ");
  return element("article", `card alarm ${mild ? "masked" : ""}`, element("h3", "", alarm.advice),
    element("p", "", badge(alarm.kind, mild ? "warn" : "bad"), badge(alarm.confidence), " ", element("span", "quiet", facts), " · ", link(runbook, runbook)),
    chainOf(alarm, width), unfolding(`why-${alarm.id}`, "Evidence, for developers", ...evidence(alarm)));
}

function drawTimeline(alarms) {
  const body = by("timeline-body");
  body.replaceChildren(element("div", "card", timeline([...alarms.standing, ...alarms.history], alarms.now_unix_s, minutes, Math.max(body.clientWidth - 38, 240))));
}

export function drawAlarms({ alarms, overview }) {
  const width = by("alarm-list").clientWidth - 54;
  const cards = alarms.standing.map((alarm) => alarmCard(alarm, width));
  by("alarm-list").replaceChildren(...(cards.length ? cards : [empty("No alarm is active.", overview.metaserver.answers)]));
  const cleared = alarms.history.slice(0, 30).map((alarm) => element("span", "", `${clock(alarm.raised_unix_s)}, for ${seconds(alarm.cleared_unix_s - alarm.raised_unix_s)}: `,
    alarm.advice));
  by("cleared-list").replaceChildren(cleared.length ? element("div", "card", list(cleared)) : empty("No alarm was cleared lately."));
  drawTimeline(alarms);
}

export function alarmsPage(again) {
  by("timeline-choices").addEventListener("click", (event) => {
    const chosen = event.target.closest("button");
    if (!chosen) return;
    minutes = Number(chosen.dataset.minutes);
    for (const button of chosen.parentElement.children) button.setAttribute("aria-pressed", String(button === chosen));
    again();
  });
}
