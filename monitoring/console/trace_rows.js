// Where the calls of a flow, or of all, stand in the timeline: processes one below the other, in each a track for each thread, and tracks
// that chains of coroutines share which follow one another; nested calls stand below their callers.
import { isThread } from "./trace_file.js";
import { shortened } from "./trace_times.js";

export const kRow = 17, kHeading = 22;
const kGap = 5;

// The lanes in which the flow has calls (-1: all flows), with their times and depths.
function lanesOf({ calls, lanes }, flow) {
  return lanes.map((lane, index) => {
    const own = flow < 0 ? lane.calls : lane.calls.filter((call) => calls.flow[call] === flow);
    const seen = { index, lane, own, begin: Infinity, end: 0, low: Infinity, high: 0 };
    for (const call of own) {
      seen.begin = Math.min(seen.begin, calls.begin[call]);
      seen.end = Math.max(seen.end, calls.end[call]);
      seen.low = Math.min(seen.low, calls.depth[call]);
      seen.high = Math.max(seen.high, calls.depth[call]);
    }
    return seen;
  });
}

function tracksOf(seen) {
  const threads = seen.filter(({ lane }) => isThread(lane)), chains = seen.filter(({ lane }) => !isThread(lane));
  const tracks = [], free = [], of = new Map(), ending = [...chains].sort((a, b) => a.end - b.end);
  let ended = 0;
  for (const one of chains.sort((a, b) => a.begin - b.begin)) {
    // Who has ended before has begun before, and has a track.
    for (; ending[ended].end < one.begin; ++ended) free.push(of.get(ending[ended]));
    const track = free.pop() ?? { lanes: [] };
    if (track.lanes.length === 0) tracks.push(track);
    track.lanes.push(one);
    of.set(one, track);
  }
  return [...threads.map((one) => ({ lanes: [one], thread: one.lane.number })), ...tracks];
}

// Returns rows {y, calls}, the places `of` lanes, headings {y, process}, labels {y, text} and the height.
export function layOut(recording, flow) {
  const { calls, names, processes } = recording;
  const made = { flow, rows: [], headings: [], labels: [], of: new Map(), height: 0 };
  const seen = lanesOf(recording, flow);
  const shown = processes.map((process, index) => ({ index, lanes: process.lanes.map((lane) => seen[lane]).filter(({ own }) => own.length > 0) }))
    .filter(({ lanes }) => lanes.length > 0);
  // A flow goes down through its processes.
  const began = ({ lanes }) => lanes.reduce((least, { begin }) => Math.min(least, begin), Infinity);
  if (flow >= 0) shown.sort((a, b) => began(a) - began(b));
  for (const { index, lanes } of shown) {
    made.headings.push({ y: made.height, process: index });
    made.height += kHeading;
    for (const { lanes: own, thread } of tracksOf(lanes)) {
      const depth = own.reduce((most, { low, high }) => Math.max(most, high - low + 1), 0); // there may be 100,000 lanes
      const rows = Array.from({ length: depth }, (_, i) => ({ y: made.height + i * kRow, calls: [] }));
      for (const one of own) {
        made.of.set(one.index, { first: made.rows.length, low: one.low });
        for (const call of one.own) rows[calls.depth[call] - one.low].calls.push(call);
      }
      const text = thread !== undefined ? `thread ${thread}` : own.length > 1 ? `${own.length} chains` : shortened(names[calls.name[own[0].own[0]]], 16);
      made.labels.push({ y: made.height, text });
      made.rows.push(...rows);
      made.height += depth * kRow + kGap;
    }
  }
  return made;
}

// Returns the row in which a call stands; undefined: it is not shown.
export function rowOf(layout, { calls }, call) {
  const place = layout.flow < 0 || calls.flow[call] === layout.flow ? layout.of.get(calls.lane[call]) : undefined;
  return place && layout.rows[place.first + calls.depth[call] - place.low];
}

// Returns the first place at or behind `at` of a call in the row that ends after a time.
export function firstAfter({ end }, row, time, at = 0) {
  let low = at, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[row[middle]] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
