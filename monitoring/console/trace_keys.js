// How a reader moves in the timeline: wheel, two fingers, drags and keys.

const kClick = 4; // pixels: a pointer that moved less has clicked

// Two fingers zoom, one drags from side to side; up and down the browser scrolls.
function pointers(timeline, chosen) {
  const { scroller, canvas } = timeline, down = new Map();
  let moved = 0;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const apart = () => {
    const [a, b] = [...down.values()];
    return Math.max(10, Math.abs(a.x - b.x));
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !timeline.recording) return;
    down.set(event.pointerId, place(event));
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId), now = place(event);
    if (!before) return;
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (moved >= kClick && !canvas.hasPointerCapture(event.pointerId)) canvas.setPointerCapture(event.pointerId); // also beyond its edge
    const distance = down.size === 2 ? apart() : 0;
    down.set(event.pointerId, now);
    if (down.size === 2) {
      const [a, b] = [...down.values()];
      timeline.zoom(distance / apart(), (a.x + b.x) / 2);
    } else if (moved >= kClick) {
      timeline.pan((before.x - now.x) / timeline.wide);
      if (event.pointerType === "mouse") scroller.scrollTop -= now.y - before.y;
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (down.delete(event.pointerId) && moved < kClick) chosen(timeline.callAt(place(event).x, place(event).y));
  });
  for (const end of ["pointercancel", "lostpointercapture"]) canvas.addEventListener(end, (event) => down.delete(event.pointerId));
  canvas.addEventListener("pointerleave", (event) => { if (!canvas.hasPointerCapture(event.pointerId)) down.delete(event.pointerId); });
}

// Returns what stands beside a call: its caller, the first that it called, and the ones before and behind it in its row.
function beside(timeline, key) {
  const { recording: { calls, lanes }, selected, flow } = timeline, list = lanes[calls.lane[selected]].calls;
  const shown = (call) => flow < 0 || calls.flow[call] === flow;
  if (key === "ArrowUp") return calls.parent[selected] >= 0 && shown(calls.parent[selected]) ? calls.parent[selected] : -1;
  const at = list.indexOf(selected), depth = calls.depth[selected] + (key === "ArrowDown" ? 1 : 0), step = key === "ArrowLeft" ? -1 : 1;
  for (let i = at + step; i >= 0 && i < list.length; i += step) {
    const call = list[i];
    if (key === "ArrowDown" && calls.begin[call] > calls.end[selected]) return -1;
    if (calls.depth[call] === depth && shown(call)) return call;
  }
  return -1;
}

function keys(timeline, { chosen, next }) {
  const { scroller } = timeline;
  const plain = {
    ArrowLeft: () => timeline.pan(-0.2), ArrowRight: () => timeline.pan(0.2), "+": () => timeline.zoom(0.5), "=": () => timeline.zoom(0.5), "-": () => timeline.zoom(2),
    w: () => timeline.zoom(0.5), s: () => timeline.zoom(2), a: () => timeline.pan(-0.2), d: () => timeline.pan(0.2), 0: () => timeline.look(timeline.whole.from, timeline.whole.to),
    n: () => next(1), N: () => next(-1), Escape: () => chosen(-1),
  };
  scroller.addEventListener("keydown", (event) => {
    if (!timeline.recording || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.shiftKey && event.key.startsWith("Arrow") && timeline.selected >= 0) {
      const call = beside(timeline, event.key);
      if (call >= 0) chosen(call, true);
    } else if (plain[event.key]) {
      plain[event.key]();
    } else {
      return; // up and down scroll
    }
    event.preventDefault();
  });
}

// `chosen(call, reveal)` is called for a call that was clicked or gone to, -1 for none; `next(step)` goes to what was found.
export function moveIn(timeline, { chosen, next, pointed }) {
  const { scroller, canvas } = timeline;
  pointers(timeline, chosen);
  keys(timeline, { chosen, next });
  // The page scrolls under the wheel until the timeline was clicked, so that nobody is caught in it.
  scroller.addEventListener("wheel", (event) => {
    if (!timeline.recording || (!event.ctrlKey && document.activeElement !== scroller)) return;
    const across = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (Math.abs(across) > Math.abs(event.deltaY) || event.shiftKey) timeline.pan(across / 600);
    else timeline.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / (event.ctrlKey ? 100 : 300)))), event.clientX - canvas.getBoundingClientRect().left);
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    pointed(event.buttons === 0 ? timeline.callAt(event.clientX - box.left, event.clientY - box.top) : -1, event.clientX - box.left, event.clientY - box.top);
  });
  canvas.addEventListener("pointerleave", () => pointed(-1, 0, 0));
}
