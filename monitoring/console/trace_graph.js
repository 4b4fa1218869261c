// Who called whom: for each process and what it was asked for, the calls that it made to others.
import { element, table } from "./dom.js";
import { counted, grouped, seconds } from "./format.js";
import { graph, naturalWidth } from "./graph.js";
import { kTrace } from "./trace_flows.js";
import { lasted, shortened } from "./trace_times.js";

const kMostNodes = 40;
const kOutside = "not recorded";

// Returns the outermost caller within the flow that says for what it was: where a process entered the flow that nobody had asked.
function borderOf({ calls, names, roles, lanes, processes }, { call, lane }) {
  if (processes[lanes[lane].process].kind === "command") return "";
  let border = "";
  for (let at = call; at >= 0 && calls.flow[at] === calls.flow[call]; at = calls.parent[at]) if (!border || !roles[calls.name[at]].aside) border = names[calls.name[at]];
  return border;
}

// Nodes and edges of a flow, or of all: -1.
class Calls {
  constructor(recording, flow) {
    Object.assign(this, { recording, nodes: new Map(), edges: new Map(), received: new Map(), open: new Map() });
    const frames = recording.frames.filter((frame) => (flow < 0 || frame.flow === flow) && frame.method !== kTrace);
    // In the order in which they came, so that who sends is known to have been asked before.
    for (const frame of frames) if (!frame.goesOn && frame.to) this.remember(frame);
    for (const list of this.received.values()) list.sort((a, b) => a.time - b.time);
    for (const frame of frames) if (!frame.goesOn) this.add(frame);
    for (const frame of frames) if (frame.goesOn && frame.from && frame.to) this.answer(frame);
    for (const { edge, sent, answered } of this.open.values()) if (answered > 0) ++edge.answers, edge.waited += answered - sent;
  }

  processOf(end) { return end ? this.recording.lanes[end.lane].process : -1; }
  key(frame, end) { return `${frame.flow} ${this.processOf(end)}`; }

  remember(frame) {
    const key = this.key(frame, frame.to);
    if (!this.received.has(key)) this.received.set(key, []);
    this.received.get(key).push({ time: frame.to.time, method: frame.method });
  }

  node(process, what) {
    const id = `${process} ${what}`;
    if (!this.nodes.has(id)) this.nodes.set(id, { id, process, what, made: 0, served: 0 });
    return this.nodes.get(id);
  }

  // A frame does not say for which request a process sent it. The latest one that the process was asked for counts.
  sender(frame) {
    if (!frame.from) return this.node(-1, "others that asked");
    const asked = (this.received.get(this.key(frame, frame.from)) ?? []).findLast(({ time }) => time <= frame.from.time);
    return this.node(this.processOf(frame.from), asked?.method ?? borderOf(this.recording, frame.from));
  }

  add(frame) {
    const from = this.sender(frame), to = frame.to ? this.node(this.processOf(frame.to), frame.method) : this.node(-1, "others that were asked");
    const id = `${from.id} → ${to.id} ${frame.method}`;
    if (!this.edges.has(id)) this.edges.set(id, { from, to, method: frame.method, calls: 0, way: 0, answers: 0, waited: 0 });
    const edge = this.edges.get(id);
    ++edge.calls, ++from.made, ++to.served;
    if (!frame.from || !frame.to) return;
    edge.way += frame.to.time - frame.from.time;
    if (frame.call !== null && !this.open.has(frame.call)) this.open.set(frame.call, { edge, caller: this.processOf(frame.from), sent: frame.from.time, answered: 0 });
  }

  // The last frame that comes back ends a call.
  answer(frame) {
    const call = this.open.get(frame.call);
    if (call && call.caller === this.processOf(frame.to)) call.answered = Math.max(call.answered, frame.to.time);
  }
}

const wayOf = ({ from, to, calls, way }) => (from.process < 0 || to.process < 0 ? null : way / calls);
const answerOf = ({ answers, waited }) => (answers > 0 ? waited / answers : null);

function titleOf({ processes }, { process }) {
  return process < 0 ? kOutside : processes[process].short;
}

function drawn(recording, { nodes, edges }, width) {
  const most = [...nodes.values()].sort((a, b) => b.made + b.served - a.made - a.served).slice(0, kMostNodes), kept = new Set(most);
  const boxes = most.map((node) => ({
    id: node.id, title: titleOf(recording, node), kind: node.served === 0 ? "source" : "",
    lines: node.process < 0 ? [node.what] : [shortened(node.what, 30), node.served > 0 ? counted(node.served, "call") : "began it"].filter(Boolean),
  }));
  const lines = [...edges.values()].filter(({ from, to }) => from !== to && kept.has(from) && kept.has(to)).map((edge) => ({
    from: edge.from.id, to: edge.to.id, label: `${grouped(edge.calls)} × ${answerOf(edge) === null ? "" : seconds(Math.max(0, answerOf(edge)) / 1e6)}`,
  }));
  const words = `Who called whom: ${[...edges.values()].slice(0, 20).map(({ from, to, method, calls }) => `${titleOf(recording, from)} ${method} of ${titleOf(recording, to)}, ${calls} times`).join("; ")}`;
  return graph(boxes, lines, words, width, ["apart", "wide"].find((size) => naturalWidth(boxes, lines, size) <= width) ?? "narrow");
}

// Returns elements. `flow` is -1 for all.
export function flowGraph(recording, flow, width) {
  const calls = new Calls(recording, flow);
  if (calls.edges.size === 0) return [element("p", "quiet", "No frame went from one process to another.")];
  const columns = [{ name: "From" }, { name: "Calls" }, { name: "To" }, { name: "Number", number: true }, { name: "On the way", number: true }, { name: "Until the answer", number: true }];
  const rows = [...calls.edges.values()].sort((a, b) => b.calls - a.calls).map((edge) => ({ cells: [
    titleOf(recording, edge.from), element("code", "", edge.method), titleOf(recording, edge.to), grouped(edge.calls),
    wayOf(edge) === null ? "–" : lasted(Math.max(0, wayOf(edge))), answerOf(edge) === null ? "–" : lasted(Math.max(0, answerOf(edge)))] }));
  const left = calls.nodes.size - kMostNodes;
  const listing = element("div", "scroll", ...table(columns, rows, "trace-edges"));
  listing.tabIndex = 0;
  return [drawn(recording, calls, width), left > 0 ? element("p", "quiet", `${counted(left, "box", "boxes")} with the fewest calls are only in the table.`) : "", listing].filter(Boolean);
}
