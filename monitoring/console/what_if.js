// How long repairs would take if a server or a rack died now. A repair manager computes it when somebody asks.
import { askMonitor, whyNot } from "./ask.js";
import { by, element } from "./dom.js";
import { bytes, seconds } from "./format.js";

function row(what, value) {
  const head = element("th", "", what);
  head.scope = "row";
  return element("tr", "", head, element("td", "", value));
}

function drawn(answer) {
  if (answer.problem) return element("p", "quiet", `No answer: ${answer.problem}.`);
  const lost = `${answer.chunks.toFixed(0)} chunks (${bytes(answer.bytes)}) of ${answer.stripes.toFixed(0)} stripes`;
  if (answer.chunks < 1) return element("p", "quiet", `${answer.lost} has no chunks: nothing would be lost.`);
  const never = answer.waiting_chunks > 0 ? "never: no server has room for the rest" : "never: nothing is left to rebuild it from";
  const after = (time) => (time === null ? never : `after ${seconds(time)}`);
  const range = answer.all_seconds === null ? "" : ` (${seconds(answer.all_seconds_low)} to ${seconds(answer.all_seconds_high)})`;
  const danger = answer.lost_stripes > 0 ? `the data of ${answer.lost_stripes.toFixed(0)} stripes is lost`
    : answer.one_failure_until_seconds === null ? "no stripe is one failure from loss"
      : `data is one failure from loss until ${seconds(answer.one_failure_until_seconds)}`;
  return element("table", "", element("tbody", "", row("Lost", lost), row("Repair begins", after(answer.begins_seconds)),
    row("Half is rebuilt", after(answer.half_seconds)), row("All", after(answer.all_seconds) + range), row("Danger", danger)));
}

function fill({ servers }) {
  const select = by("what-if-lost"), before = select.value;
  const names = servers.filter((server) => server.liveness !== "dead").map((server) => ["server", server.name]);
  const racks = [...new Set(servers.map((server) => server.rack).filter(Boolean))].map((rack) => ["rack", rack]);
  const wanted = [...names, ...(racks.length > 1 && racks.length < servers.length ? racks : [])];
  const values = wanted.map(([kind, name]) => `${kind}=${name}`);
  if (JSON.stringify(values) === JSON.stringify([...select.options].map((option) => option.value))) return;
  select.replaceChildren(...wanted.map(([kind, name], i) => {
    const option = element("option", "", kind === "rack" ? `all of ${name}` : name);
    option.value = values[i];
    return option;
  }));
  if (values.includes(before)) select.value = before;
  by("what-if-ask").disabled = values.length === 0;
}

async function ask() {
  const button = by("what-if-ask"), body = by("what-if-body");
  button.disabled = true;
  body.replaceChildren(element("p", "quiet", "Computing …"));
  try {
    const answer = await askMonitor(`what-if?${by("what-if-lost").value}`, 30000);
    body.replaceChildren(drawn(await answer.json()));
  } catch (error) {
    body.replaceChildren(element("p", "quiet", whyNot(error)));
  } finally {
    button.disabled = false;
  }
}

// `servers`: the document of the servers, whenever it changed.
export const whatIfServers = fill;

export function whatIf() {
  by("what-if-ask").addEventListener("click", ask);
}
