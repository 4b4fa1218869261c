// This describes one call: in a line beside the pointer, and in full below the timeline.
import { element, facts } from "./dom.js";
import { counted } from "./format.js";
import { isThread, kElsewhere, kGoesOn, kWaits } from "./trace_file.js";
import { lasted, moment } from "./trace_times.js";

const kMostFrames = 8;
const kMeanings = new Map([[kWaits, "it waits for what it asked for"], [kElsewhere, "the thread runs coroutines, which have lanes of their own"]]);

// "chunkserver::Store::read · 12.300 ms, itself 0.120 ms".
export function told({ calls, names }, call) {
  const name = names[calls.name[call]], meaning = kMeanings.get(name);
  return [meaning ? `${name}: ${meaning}` : name, `${lasted(calls.end[call] - calls.begin[call])}, itself ${lasted(Math.max(0, calls.self[call]))}`];
}

// Returns buttons that go to the other ends of the frames that the call sent and received.
function framesOf({ frames, lanes, processes }, call, chosen) {
  const own = frames.flatMap((frame, number) => (frame.from?.call === call || frame.to?.call === call ? [{ ...frame, number }] : []));
  const buttons = own.slice(0, kMostFrames).map((frame) => {
    const sends = frame.from?.call === call, other = sends ? frame.to : frame.from, what = `${frame.method}${frame.goesOn ? kGoesOn : ""}`;
    const peer = other ? processes[lanes[other.lane].process].short : "a process that is not recorded";
    const text = `${sends ? "sent" : "received"} ${what} ${sends ? "to" : "from"} ${peer}, ${moment((sends ? frame.from : frame.to).time, 1)}`;
    if (!other || other.call < 0) return element("li", "", text);
    const button = element("button", "plain", text);
    button.type = "button";
    button.dataset.focus = `frame ${frame.number}`;
    button.addEventListener("click", () => chosen(other.call, true));
    return element("li", "", button);
  });
  if (own.length > kMostFrames) buttons.push(element("li", "quiet", `and ${own.length - kMostFrames} more`));
  return buttons.length ? element("ul", "frames", ...buttons) : null;
}

// `chosen(call, reveal)` goes to another call, `only(flow)` shows one flow. Returns elements.
export function detail(recording, call, flow, { chosen, only }) {
  const { calls, names, lanes, processes, flows } = recording, lane = lanes[calls.lane[call]], process = processes[lane.process], own = calls.flow[call];
  const children = lane.calls.filter((one) => calls.parent[one] === call).length, caller = calls.parent[call];
  const button = element("button", "", "Show it alone");
  button.type = "button";
  button.dataset.focus = "alone";
  button.addEventListener("click", () => only(own));
  return [element("h3", "", element("code", "", names[calls.name[call]])), facts([
    ["Duration", lasted(calls.end[call] - calls.begin[call])],
    ["Itself", `${lasted(Math.max(0, calls.self[call]))}${children > 0 ? `, without the ${counted(children, "call")} that it made` : ""}`],
    ["Time", `${moment(calls.begin[call], 0.001)} – ${moment(calls.end[call], 0.001)}`],
    ["Process", process.file ? `${process.short}, ${process.file}` : process.short],
    ["Lane", `${isThread(lane) ? "thread" : "chain of coroutines"} ${lane.number}`],
    ["Called by", caller >= 0 ? names[calls.name[caller]] : ""],
    ["Request", element("span", "", `${flows[own].title} (flow ${flows[own].number}) `, own === flow ? null : button)],
    ["Frames", framesOf(recording, call, chosen)],
  ])];
}
