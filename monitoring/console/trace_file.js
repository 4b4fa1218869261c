// Reads what `kintsugi trace export --format chrome` wrote: processes, their lanes, calls, and frames between processes. A lane is a
// thread, or a chain of coroutines that wait for one another; calls in it are nested. Times are microseconds since the first event.
import { bytes } from "./format.js";

const kMostBytes = 256 << 20;
const kLatest = 4e15;   // 126 years: clocks of hosts may differ much, and microseconds are still told apart
const kDeepest = 10000; // calls in one another; the exporter writes some hundreds at most
const kKinds = new Set(["B", "E", "s", "f", "i"]); // of events that happened at a time
const kMagic = "KTRACE1\n"; // with which a recording begins that was not exported
export const kWaits = "(waits)", kElsewhere = "(elsewhere)"; // a lane waits; its thread runs coroutines, which have lanes of their own
export const kGoesOn = " (goes on)"; // ends the name of a frame that is not the first one of its call: an answer, say
const kExport = "kintsugi trace export FILE... --format chrome --out slow.json";

// `message` goes on with the name of the file.
export class Unreadable extends Error {}

const isPlace = (value) => Number.isInteger(value) && value >= 0;
const isTime = (value) => Number.isFinite(value) && value >= 0 && value < kLatest;

// Coroutines wait, and are called by nothing: a chain has one outermost call, unless that began before the recording.
export const isThread = (lane) => !lane.waits && lane.outermost > 1;

// Returns the number of calls. Throws Unreadable if an event is none of the exporter's.
function countCalls(events) {
  let calls = 0;
  events.forEach((event, i) => {
    const wrong = (why) => { throw new Unreadable(`is a trace of another program, or was changed: event ${i + 1} ${why}.`); };
    if (event === null || typeof event !== "object") wrong("is no event");
    if (!kKinds.has(event.ph)) return;
    if (!isPlace(event.pid) || !isPlace(event.tid) || !isTime(event.ts)) wrong("says no process, thread or time");
    if (event.ph === "E") return;
    if (typeof event.name !== "string") wrong("has no name");
    if (!isPlace(event.args?.flow)) wrong("has no number of a flow");
    if (event.ph === "B") ++calls;
  });
  return calls;
}

// "kintsugi-chunkserver 26840 (slow/trace.127.0.0.1:31080)": the program, the process, and the recording.
function processNamed(pid, name) {
  const [, program, number, file] = name.match(/^(\S+) (\d+) \((.*)\)$/) ?? [null, name, "", ""];
  const kind = program === "kintsugi" ? "command" : program.replace(/^kintsugi-/, "");
  return { pid, name, kind, short: `${kind} ${number}`.trim(), file, lanes: [] };
}

// What names of functions say of a call. The exporter knows it of the directives with which it separated the flows.
function rolesOf({ names, waiting: { waits, others, aside } }) {
  const among = (list) => (Array.isArray(list) ? list.filter((one) => typeof one === "string") : []);
  const wait = new Set([...among(waits), kWaits, kElsewhere]), other = new Set(among(others)), beginnings = among(aside);
  return names.map((name) => ({
    waits: wait.has(name),                                             // nothing is done meanwhile
    forOthers: other.has(name),                                        // it waits for a message that somebody else sends
    aside: wait.has(name) || other.has(name) || beginnings.some((beginning) => name.startsWith(beginning)), // it says nothing of the request
  }));
}

class Reader {
  constructor(calls) {
    this.recording = { processes: [], names: [], lanes: [], flows: [], frames: [], waiting: {}, begin: 0, end: 0, calls: {
      count: 0, begin: new Float64Array(calls), end: new Float64Array(calls), self: new Float64Array(calls), name: new Uint32Array(calls),
      flow: new Uint32Array(calls), lane: new Uint32Array(calls), depth: new Uint16Array(calls), parent: new Int32Array(calls) } };
    this.processes = new Map(), this.lanes = new Map(), this.names = new Map(), this.flows = new Map(), this.arrows = new Map();
  }

  process(pid, name = `process ${pid}`) {
    if (!this.processes.has(pid)) {
      this.processes.set(pid, this.recording.processes.length);
      this.recording.processes.push(processNamed(pid, name));
    }
    return this.processes.get(pid);
  }

  lane({ pid, tid }) {
    const key = `${pid} ${tid}`;
    if (!this.lanes.has(key)) {
      const process = this.process(pid), lane = { process, number: tid, calls: [], open: [], outermost: 0, waits: false };
      this.recording.processes[process].lanes.push(this.recording.lanes.length);
      this.lanes.set(key, this.recording.lanes.length);
      this.recording.lanes.push(lane);
    }
    return this.lanes.get(key);
  }

  // Returns the place of what has this key, which gets the next one when it is new.
  static place(places, list, key, made) {
    if (!places.has(key)) {
      places.set(key, list.length);
      list.push(made(key));
    }
    return places.get(key);
  }

  name(text) { return Reader.place(this.names, this.recording.names, text, (name) => name); }
  flow(number) { return Reader.place(this.flows, this.recording.flows, number, () => ({ number })); }

  enter(event) {
    const { calls, lanes } = this.recording, at = this.lane(event), lane = lanes[at], call = calls.count++;
    calls.begin[call] = event.ts;
    calls.name[call] = this.name(event.name);
    calls.flow[call] = this.flow(event.args.flow);
    calls.lane[call] = at;
    if (lane.open.length === kDeepest) throw new Unreadable(`is a trace of another program, or was changed: more than ${kDeepest} calls are in one another.`);
    calls.depth[call] = lane.open.length;
    calls.parent[call] = lane.open.at(-1) ?? -1;
    if (lane.open.length === 0) ++lane.outermost;
    if (event.name === kWaits) lane.waits = true;
    lane.calls.push(call);
    lane.open.push(call);
  }

  leave(lane, time) {
    const { calls } = this.recording, call = lane.open.pop();
    if (call === undefined) throw new Unreadable("is a trace of another program, or was changed: a call ends that did not begin.");
    const lasted = Math.max(0, time - calls.begin[call]), parent = calls.parent[call];
    calls.end[call] = calls.begin[call] + lasted;
    calls.self[call] += lasted; // what it called has been taken away already
    if (parent >= 0) calls.self[parent] -= lasted;
  }

  // Returns the innermost call that is open in a lane at a time, or, when it is of another flow, what is called next for this one. -1:
  // there is none.
  callOf(lane, time, flow) {
    const { calls } = this.recording, list = lane.calls;
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (calls.begin[list[middle]] <= time) low = middle + 1;
      else high = middle;
    }
    let call = low > 0 ? list[low - 1] : -1;
    while (call >= 0 && calls.end[call] < time) call = calls.parent[call];
    return low < list.length && calls.flow[list[low]] === flow && (call < 0 || calls.flow[call] !== flow) ? list[low] : call;
  }

  // An end of an arrow, or a frame whose other end is not recorded.
  frame(event) {
    const at = this.lane(event), place = { lane: at, time: event.ts, call: this.callOf(this.recording.lanes[at], event.ts, this.flow(event.args.flow)) };
    const receives = event.ph === "f" || (event.ph === "i" && event.args.frame === "received");
    if (event.ph === "i") return this.add(event, receives ? null : place, receives ? place : null);
    const other = this.arrows.get(event.id);
    if (!other) return this.arrows.set(event.id, { event, place });
    this.arrows.delete(event.id);
    return receives ? this.add(event, other.place, place) : this.add(other.event, place, other.place);
  }

  // A frame belongs to the flow of who received it.
  add(event, from, to) {
    const goesOn = event.name.endsWith(kGoesOn);
    this.recording.frames.push({ method: goesOn ? event.name.slice(0, -kGoesOn.length) : event.name, goesOn, flow: this.flow(event.args.flow),
      call: typeof event.args.call === "string" && event.args.call !== "0" ? event.args.call : null, from, to }); // which call; null: nobody knows
  }

  read(events) {
    const { recording } = this;
    for (const event of events) {
      if (event.ph === "M" && event.name === "process_name" && isPlace(event.pid)) this.process(event.pid, String(event.args?.name));
      if (event.ph === "M" && event.name === "waiting") recording.waiting = event.args ?? {};
      if (event.ph === "B") this.enter(event);
      if (event.ph === "E") this.leave(recording.lanes[this.lane(event)], event.ts);
      if (kKinds.has(event.ph) && event.ts > recording.end) recording.end = event.ts;
    }
    for (const lane of recording.lanes) while (lane.open.length) this.leave(lane, recording.end);
    for (const event of events) if (event.ph === "s" || event.ph === "f" || event.ph === "i") this.frame(event);
    recording.frames.sort((a, b) => (a.from ?? a.to).time - (b.from ?? b.to).time);
    recording.events = events.length;
    recording.roles = rolesOf(recording);
    return recording;
  }
}

function whyNoJson(text) {
  if (text.startsWith(kMagic)) return `is a recording as daemons make it. Open what \`${kExport}\` makes of it.`;
  if (text.startsWith('{"displayTimeUnit"')) return "was cut off: it does not end as it should. Export it again.";
  return `is no JSON. Open what \`${kExport}\` wrote.`;
}

// Throws Unreadable.
export function parseRecording(text) {
  if (text === "") throw new Unreadable("is empty.");
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new Unreadable(whyNoJson(text));
  }
  if (parsed?.resourceSpans) throw new Unreadable("was exported with `--format otlp`. Export it with `--format chrome`.");
  const events = parsed?.traceEvents;
  if (!Array.isArray(events)) throw new Unreadable(`is JSON of something else. Open what \`${kExport}\` wrote.`);
  const calls = countCalls(events);
  if (calls === 0 && !events.every(({ ph }) => ph === "M")) throw new Unreadable("is a trace of another program.");
  if (calls === 0) throw new Unreadable("holds no calls: nothing was recorded.");
  return new Reader(calls).read(events);
}

// Throws Unreadable.
export async function readRecording(file) {
  if (file.size > kMostBytes)
    throw new Unreadable(`has ${bytes(file.size)}, and this page reads ${bytes(kMostBytes)} at most. Record for a shorter time, or open it in Perfetto.`);
  let text;
  try {
    text = await file.text();
  } catch (error) {
    throw new Unreadable(`cannot be read (${error.message}).`);
  }
  return parseRecording(text);
}
