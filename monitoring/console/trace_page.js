// The page of recordings. The reader opens a file; it is read here, in the browser, and the monitor gets nothing of it.
import { by, opened } from "./dom.js";
import { counted, grouped } from "./format.js";
import { detail, told } from "./trace_detail.js";
import { readRecording, Unreadable } from "./trace_file.js";
import { describeFlows, Found } from "./trace_flows.js";
import { flowGraph } from "./trace_graph.js";
import { moveIn } from "./trace_keys.js";
import { flowList } from "./trace_list.js";
import { layOut } from "./trace_rows.js";
import { Timeline } from "./trace_timeline.js";
import { lasted, moment } from "./trace_times.js";

const kEverything = -1;

let timeline;
let recording = null;
let flow = kEverything;                        // the one that is shown
let order = { column: 3, backwards: false };   // of the list: the longest first
let onlyRequests = true;                       // the list leaves out timers and threads
let found = null, matches = [], current = -1;  // what the search has found, and at which of them the reader is
let drawn = "";                                // what the list and the graph were drawn from last
let version = 0;                               // counts what changes them
let opening = 0;                               // files that were opened

const width = () => by("page-traces").clientWidth;

// ---- what is shown

function drawList() {
  const all = recording.flows.map((_, index) => index), listed = onlyRequests ? all.filter((index) => recording.flows[index].isRequest) : all;
  by("trace-flows").replaceChildren(...flowList(recording, listed.filter((index) => found.hasFlow(index)), flow, order, {
    choose, sort: (next) => { order = next; ++version; drawTraces(); } }));
}

// Draws what has changed since it was drawn last: the console asks for it whenever the monitor has said something new.
export function drawTraces() {
  if (!recording || width() === 0) return;
  timeline.draw();
  const now = JSON.stringify([version, width(), opened.has("trace-flows"), opened.has("trace-edges")]);
  if (now === drawn) return;
  drawn = now;
  const focus = document.activeElement?.dataset.focus;
  drawList();
  by("trace-graph").replaceChildren(...flowGraph(recording, flow, by("trace-graph").clientWidth - 4));
  if (focus) document.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
}

// Whoever has pressed a button in it is at the same one afterwards, which leads back; or, when it is gone, at the beginning.
function drawDetail() {
  const call = timeline.selected, place = by("trace-detail"), focus = place.contains(document.activeElement) ? document.activeElement.dataset.focus ?? "" : null;
  const only = (own) => { show(own); chooseCall(call); };
  place.replaceChildren(...(call < 0 ? [] : detail(recording, call, flow, { chosen: chooseCall, only })));
  if (focus !== null) (place.querySelector(`[data-focus="${CSS.escape(focus)}"]`) ?? place).focus({ preventScroll: true });
}

function chooseCall(call, reveal = false) {
  // A frame may lead to what is not shown: who reads a connection does it for all requests.
  if (call >= 0 && flow >= 0 && recording.calls.flow[call] !== flow) show(kEverything);
  timeline.selected = call;
  if (reveal && call >= 0) timeline.reveal(call);
  timeline.draw();
  drawDetail();
}

function show(next, layout) {
  flow = next;
  timeline.show(recording, flow, layout);
  by("trace-all").setAttribute("aria-pressed", String(flow === kEverything));
  by("trace-of").textContent = flow === kEverything ? "everything" : `${recording.flows[flow].title} (flow ${recording.flows[flow].number})`;
  look();
  ++version;
  drawTraces();
}

function choose(next, layout) {
  show(next, layout);
  drawDetail();
}

// ---- search

function tellFound() {
  by("trace-found").textContent = found.nothing ? "" : matches.length === 0 ? "no such function here" : current < 0 ? `${grouped(matches.length)} found` : `${grouped(current + 1)} of ${grouped(matches.length)}`;
  for (const name of ["trace-before", "trace-next"]) by(name).disabled = matches.length === 0;
}

function look() {
  found = new Found(recording, by("trace-search").value);
  matches = found.calls(flow);
  current = -1;
  timeline.mark(matches);
  tellFound();
}

function next(step) {
  if (matches.length === 0) return;
  current = current < 0 ? (step > 0 ? 0 : matches.length - 1) : (current + step + matches.length) % matches.length;
  chooseCall(matches[current], true);
  tellFound();
}

// ---- files

function summary(file, { processes, flows, calls, frames, begin, end, events }) {
  const requests = flows.filter(({ isRequest }) => isRequest).length;
  return `${file.name}: ${counted(processes.length, "process", "processes")}, ${counted(requests, "request")} of ${counted(flows.length, "flow")}, ` +
    `${lasted(end - begin)}, ${counted(calls.count, "call")}, ${counted(frames.length, "frame")} (${counted(events, "event")})`;
}

// Whatever is wrong with a file is one line, and the page stays as it was.
async function open(files) {
  const own = ++opening, say = (text, bad) => { by("trace-problem").textContent = text; by("trace-problem").className = bad ? "bad" : "quiet"; };
  if (files.length !== 1) return say(`These are ${files.length} files: open one. \`kintsugi trace export\` makes one file of all recordings.`, true);
  const [file] = files;
  say(`Reading ${file.name} …`, false);
  await new Promise((shown) => setTimeout(shown, 30));
  try {
    const read = await readRecording(file);
    if (own !== opening) return; // another one was opened meanwhile
    describeFlows(read);
    const layout = layOut(read, kEverything), line = summary(file, read);
    recording = read;
    onlyRequests = recording.flows.some(({ isRequest }) => isRequest);
    say("", false);
    by("trace-summary").textContent = line;
    by("trace-body").hidden = false;
    by("trace-search").value = "";
    drawKind();
    choose(kEverything, layout);
  } catch (error) {
    if (own === opening) say(`${file.name} ${error instanceof Unreadable ? error.message : `cannot be shown (${error.message}).`}`, true);
  }
}

function drawKind() {
  for (const button of by("trace-kind").children) button.setAttribute("aria-pressed", String((button.dataset.kind === "requests") === onlyRequests));
}

// ---- the reader

function point(call, x, y) {
  const tip = by("trace-tip");
  tip.hidden = call < 0;
  if (call < 0) return;
  const [name, times] = told(recording, call);
  tip.replaceChildren(name, document.createElement("br"), times);
  tip.style.left = `${Math.max(0, Math.min(x + 12, by("trace-frame").clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 18}px`;
}

function drops() {
  const here = () => !by("page-traces").hidden;
  addEventListener("dragover", (event) => {
    if (!here() || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    by("trace-drop").classList.add("over");
  });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) by("trace-drop").classList.remove("over"); });
  addEventListener("drop", (event) => {
    if (!here() || event.dataTransfer.files.length === 0) return;
    event.preventDefault();
    by("trace-drop").classList.remove("over");
    open([...event.dataTransfer.files]);
  });
}

function searches() {
  const field = by("trace-search");
  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { look(); ++version; drawTraces(); }, 120);
  });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") next(event.shiftKey ? -1 : 1); });
  by("trace-before").addEventListener("click", () => next(-1));
  by("trace-next").addEventListener("click", () => next(1));
}

export function traces() {
  timeline = new Timeline(by("trace-canvas"), by("trace-scroll"), by("trace-tall"));
  timeline.changed = () => {
    const { from, to } = timeline, step = (to - from) / 1000;
    by("trace-seen").textContent = `${moment(Math.max(0, from), step, 1000)} – ${moment(to, step, 1000)} (${lasted(to - from)})`;
  };
  moveIn(timeline, { chosen: chooseCall, next, pointed: point });
  by("trace-file").addEventListener("change", (event) => {
    if (event.target.files.length) open([...event.target.files]);
    event.target.value = ""; // so that the same file can be opened again
  });
  drops();
  searches();
  const press = (name, does) => by(name).addEventListener("click", does);
  press("trace-all", () => choose(kEverything));
  press("trace-nearer", () => timeline.zoom(0.5));
  press("trace-farther", () => timeline.zoom(2));
  press("trace-whole", () => timeline.look(timeline.whole.from, timeline.whole.to));
  by("trace-kind").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    onlyRequests = button.dataset.kind === "requests";
    drawKind();
    ++version;
    drawTraces();
  });
  // The canvas has the colours of the page.
  new MutationObserver(() => timeline.draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.draw());
}
