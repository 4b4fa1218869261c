// This finds out for each flow of a recording what it was done for, where it began and how long it lasted, and which flows and calls
// have the words of a search.
import { kElsewhere } from "./trace_file.js";
import { listed, shortened } from "./trace_times.js";
import { lastWaits, sleepsOf } from "./trace_waits.js";

export const kTrace = "Trace"; // the calls that had servers record
const kMostWords = 30;  // bits of a mask

function see(flow, process, begin, end) {
  if (begin < flow.begin) [flow.begin, flow.process] = [begin, process];
  flow.end = Math.max(flow.end, end);
  flow.processes.add(process);
}

// Fills the flows of a recording.
export function describeFlows(recording) {
  const { flows, frames, calls, lanes, processes, names, roles } = recording;
  for (const flow of flows) Object.assign(flow, { begin: Infinity, end: 0, process: 0, processes: new Set(), methods: new Set(), calls: 0, first: -1 });
  const elsewhere = names.indexOf(kElsewhere), last = lastWaits(recording), commands = new Map();
  const says = (call) => call >= 0 && !roles[calls.name[call]].aside;
  for (let call = 0; call < calls.count; ++call) {
    const flow = flows[calls.flow[call]], end = Number.isNaN(last[call]) ? calls.end[call] : last[call];
    ++flow.calls;
    if (calls.name[call] === elsewhere) continue;
    // The first that says what it is for.
    if (flow.first < 0 || says(call) > says(flow.first) || (says(call) === says(flow.first) && calls.begin[call] < calls.begin[flow.first])) flow.first = call;
    see(flow, lanes[calls.lane[call]].process, calls.begin[call], end);
  }
  for (const frame of frames) {
    const flow = flows[frame.flow];
    for (const end of [frame.from, frame.to]) if (end) see(flow, lanes[end.lane].process, end.time, end.time);
    flow.methods.add(frame.method);
  }
  const slept = sleepsOf(recording);
  flows.forEach((flow, index) => {
    flow.methods = [...flow.methods];
    const shown = flow.methods.filter((method) => method !== kTrace), { kind } = processes[flow.process];
    if (flow.begin === Infinity) flow.begin = flow.end; // a thread's time that belongs to no flow
    flow.lasted = Math.max(0, flow.end - flow.begin - (slept.get(index) ?? 0));
    flow.isRequest = shown.length > 0;
    flow.title = shown.length ? listed(shown, 4) : flow.methods[0] ?? (flow.first >= 0 ? shortened(names[calls.name[flow.first]], 48) : kElsewhere);
    // All that a command does is one flow. Smaller flows of its process are timers and threads.
    if (kind === "command" && !(commands.get(flow.process)?.calls >= flow.calls)) commands.set(flow.process, flow);
  });
  for (const flow of commands.values()) flow.isRequest = true;
}

// What a text finds. Each of its words has to be a part of a name.
export class Found {
  constructor(recording, text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean).slice(0, kMostWords);
    const maskOf = (name) => words.reduce((mask, word, i) => (name.toLowerCase().includes(word) ? mask | (1 << i) : mask), 0);
    this.recording = recording;
    this.nothing = words.length === 0; // nothing is searched for
    this.all = 2 ** words.length - 1;
    this.ofName = Uint32Array.from(recording.names, maskOf);
    this.ofProcess = Uint32Array.from(recording.processes, ({ name, short }) => maskOf(`${name} ${short}`));
    this.ofFlow = Uint32Array.from(recording.flows, ({ methods, processes }) =>
      [...processes].reduce((mask, process) => mask | this.ofProcess[process], maskOf(methods.join(" "))));
    const { calls } = recording;
    for (let call = 0; call < calls.count; ++call) this.ofFlow[calls.flow[call]] |= this.ofName[calls.name[call]];
    this.ofMethod = maskOf;
  }

  // A flow is found when it has all words, wherever.
  hasFlow(index) { return this.nothing || this.ofFlow[index] === this.all; }

  hasCall(call) {
    const { calls, lanes } = this.recording, name = this.ofName[calls.name[call]];
    return name !== 0 && (name | this.ofProcess[lanes[calls.lane[call]].process]) === this.all;
  }

  // The calls that are found in a flow (-1: in all), and those that sent or received a frame of such a method, in the order of time.
  calls(flow) {
    if (this.nothing) return [];
    const { calls, frames } = this.recording, found = new Set();
    for (let call = 0; call < calls.count; ++call) if ((flow < 0 || calls.flow[call] === flow) && this.hasCall(call)) found.add(call);
    for (const frame of frames) {
      if ((flow >= 0 && frame.flow !== flow) || this.ofMethod(frame.method) !== this.all) continue;
      for (const end of [frame.from, frame.to]) if (end && end.call >= 0 && (flow < 0 || calls.flow[end.call] === flow)) found.add(end.call);
    }
    return [...found].sort((a, b) => calls.begin[a] - calls.begin[b]);
  }
}
