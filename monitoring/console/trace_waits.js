// Some time in a flow is not spent on its request. Whoever serves a connection waits for its next request, and a server sleeps until it
// does something again. This finds that time.
import { kWaits } from "./trace_file.js";

const kSleeps = "runtime::TaskGroup::sleep_until";
const kClients = ["command", "mount"]; // what these wait for, somebody waits for who asked them

// Returns for each lane its frames in the order of time. `asked` is when the latest request had come by then.
function framesByLane({ frames, lanes }) {
  const own = lanes.map(() => []);
  for (const frame of frames) {
    if (frame.from) own[frame.from.lane].push({ frame, sends: true, time: frame.from.time, asked: Infinity });
    if (frame.to) own[frame.to.lane].push({ frame, sends: false, time: frame.to.time, asked: Infinity });
  }
  for (const list of own) {
    list.sort((a, b) => a.time - b.time);
    list.forEach((one, i) => { one.asked = !one.sends && !one.frame.goesOn ? one.time : list[i - 1]?.asked ?? Infinity; });
  }
  return own;
}

// Which lanes have to do with each call.
class Parties {
  constructor({ frames, calls }) {
    Object.assign(this, { calls, asked: new Map(), received: new Map(), answered: new Map() });
    for (const { call, goesOn, from, to } of frames) {
      if (call === null || goesOn) continue;
      if (from) this.asked.set(call, from.lane);
      if (to) this.received.set(call, to.lane);
    }
    for (const { call, goesOn, from } of frames) if (call !== null && goesOn && from && this.asked.get(call) !== from.lane) this.answered.set(call, from.lane);
  }

  // Returns true when a wait in a lane is for the next request, and not for the one to which the latest frame of the lane belongs.
  waitsForNext(wait, lane, { frame, sends, time, asked }) {
    const { call, goesOn } = frame, { begin, parent } = this.calls;
    if ((sends && !goesOn) || this.asked.get(call) === lane) return false; // it has asked somebody itself
    if (!sends && this.received.get(call) !== lane) return true; // it reads a connection for others
    if (!sends) return this.answered.has(call) && this.answered.get(call) !== lane; // others have answered: what nobody did is not done
    // Who is still in what was called for the request, and has answered a part, goes on with it.
    let outer = parent[wait];
    while (outer >= 0 && begin[outer] > time) outer = parent[outer];
    return outer < 0 || begin[outer] <= asked;
  }
}

// Returns for each call when the last wait in it for somebody else's request began; NaN: there is none.
export function lastWaits(recording) {
  const { calls, roles, names } = recording, own = framesByLane(recording), parties = new Parties(recording);
  const waits = names.indexOf(kWaits), last = new Float64Array(calls.count).fill(NaN), before = own.map((list) => list.length), next = [];
  const receives = own.map((list) => list.some(({ sends }) => !sends));
  for (let call = calls.count - 1; call >= 0; --call) {
    const at = calls.lane[call], begin = calls.begin[call], parent = calls.parent[call];
    for (let one; (one = own[at][before[at] - 1])?.time >= begin; --before[at]) if (!one.sends) next[at] = one.frame;
    const latest = own[at][before[at] - 1], may = calls.name[call] === waits && receives[at] && next[at]?.flow !== calls.flow[call];
    const forNext = may && (!latest || parties.waitsForNext(call, at, latest));
    if (forNext || roles[calls.name[call]].forOthers) last[call] = begin;
    if (parent >= 0 && Number.isNaN(last[parent])) last[parent] = last[call];
  }
  // For its flow, a call below a function that waits for others ended when that function began to wait.
  const below = new Uint8Array(calls.count);
  for (let call = 0; call < calls.count; ++call) {
    const parent = calls.parent[call];
    if (parent < 0 || !(below[parent] || roles[calls.name[parent]].forOthers)) continue;
    below[call] = 1;
    last[call] = last[parent];
  }
  return last;
}

// Returns for flows how long servers slept in them that nobody had asked within the flow: they do something again and again.
export function sleepsOf({ calls, frames, lanes, processes, names, flows }) {
  const sleeps = names.indexOf(kSleeps), asked = new Set(), lists = new Map(), slept = new Map();
  for (const { to, flow, goesOn } of frames) if (to && !goesOn) asked.add(flow * processes.length + lanes[to.lane].process);
  for (let call = 0; call < calls.count; ++call) {
    const flow = calls.flow[call], { process } = lanes[calls.lane[call]];
    if (calls.name[call] !== sleeps || kClients.includes(processes[process].kind) || asked.has(flow * processes.length + process)) continue;
    if (!lists.has(flow)) lists.set(flow, []);
    lists.get(flow).push(call);
  }
  for (const [flow, list] of lists) {
    let until = flows[flow].begin, sum = 0;
    for (const call of list.sort((a, b) => calls.begin[a] - calls.begin[b])) {
      const end = Math.min(calls.end[call], flows[flow].end);
      sum += Math.max(0, end - Math.max(until, calls.begin[call]));
      until = Math.max(until, end);
    }
    slept.set(flow, sum);
  }
  return slept;
}
