// The first page: alarms in short, room, repairs, and the cluster over hours and days.
import { by, element, empty, facts, link, meter } from "./dom.js";
import { bytes, counted, grouped, percent, seconds } from "./format.js";

const kAlarmsShown = 3;

function shortAlarm(alarm) {
  return element("li", alarm.masked ? "warn" : "bad", link("#alarms", alarm.advice));
}

export function repairsInWords({ running, queued, delayed, unrepairable, left_s, delay_s }) {
  const parts = [running > 0 ? `${counted(running, "chunk")} being repaired` : "", queued > 0 ? `${grouped(queued)} queued` : "",
    left_s !== null && left_s !== undefined ? `about ${seconds(left_s)} left` : "",
    delayed > 0 ? `${grouped(delayed)} wait until a server has been dead for ${seconds(delay_s)}` : "",
    unrepairable > 0 ? `${grouped(unrepairable)} cannot be rebuilt now` : ""].filter(Boolean);
  return parts.length ? parts.join(", ") : "None runs, none waits";
}

function room(space) {
  const used = space.total_bytes > 0 ? 1 - space.free_bytes / space.total_bytes : 0;
  return element("div", "card", element("h3", "", "Room"), meter(used, used >= 0.95 ? "bad" : used >= 0.85 ? "warn" : ""),
    facts([["Used", `${percent(used)} of ${bytes(space.total_bytes)}`], ["Free", bytes(space.free_bytes)],
      ["Room for", `${bytes(space.storable_bytes)} of files with ${space.policy}`], ["Stored, with parity", bytes(space.stored_bytes)]]));
}

export function drawOverview({ overview, alarms, repairs }) {
  const shown = alarms.standing.slice(0, kAlarmsShown).map(shortAlarm);
  if (alarms.standing.length > kAlarmsShown) shown.push(element("li", "", link("#alarms", `and ${alarms.standing.length - kAlarmsShown} more`)));
  const { stripes } = overview;
  by("overview-alarms").replaceChildren(shown.length ? element("ul", "card short", ...shown) : empty("No alarm is active.", overview.metaserver.answers));
  by("overview-numbers").replaceChildren(room(overview.space),
    element("div", "card", element("h3", "", "Data"), facts([["Files", grouped(overview.space.files)], ["Stripes", grouped(stripes.all)], ["Degraded", grouped(stripes.degraded)],
      ["Without spare", grouped(stripes.without_spare)], ["Unreadable", grouped(stripes.unreadable)], ["Missing chunks", grouped(stripes.missing_chunks)]])),
    element("div", "card", element("h3", "", "Repairs"), facts([["Now", repairsInWords({ ...repairs, running: repairs.running.length })],
      ["Done", `${grouped(repairs.done)}, ${bytes(repairs.bytes_repaired)}`], ["Failed", grouped(repairs.failed)]]), element("p", "", link("#repairs", "All repairs"))));
}
