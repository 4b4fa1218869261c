// Draws the timeline of a recording on a canvas: only what is visible, and what is smaller than a pixel as one with what is beside it.
import { firstAfter, kHeading, kRow, layOut, rowOf } from "./trace_rows.js";
import { moment, shortened, steps } from "./trace_times.js";

export const kLeastShown = 0.1; // microseconds
const kAxis = 24, kMostArrows = 3000;
const kFont = '11px system-ui, "DejaVu Sans", sans-serif', kBold = `600 ${kFont.replace("11", "12")}`;
const kHues = [212, 38, 150, 280, 96, 335, 184, 20]; // one for each part of the program

// The colours of the page, which change with its theme.
function colours(canvas) {
  const style = getComputedStyle(canvas), of = (name) => style.getPropertyValue(name).trim();
  const dark = parseInt(of("--paper").slice(1, 3), 16) < 128;
  return { ink: of("--ink"), quiet: of("--quiet"), line: of("--line"), card: of("--card"), paper: of("--paper"), gold: of("--gold"), blue: of("--blue"), bad: of("--bad"),
    fill: kHues.map((hue) => (dark ? `hsl(${hue} 34% 29%)` : `hsl(${hue} 58% 83%)`)), edge: kHues.map((hue) => (dark ? `hsl(${hue} 38% 46%)` : `hsl(${hue} 42% 62%)`)) };
}

function hueOf(name) {
  let sum = 0;
  for (const letter of name.split("::")[0]) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return sum % kHues.length;
}

export class Timeline {
  // `scroller` holds the canvas and is as high as may be seen; `tall` lies within it and is as high as all rows.
  constructor(canvas, scroller, tall) {
    Object.assign(this, { canvas, scroller, tall, recording: null, selected: -1, found: new Map(), changed: () => {} });
    this.context = canvas.getContext("2d");
    scroller.addEventListener("scroll", () => this.draw());
  }

  // Shows a flow, or everything: -1.
  show(recording, flow, layout = layOut(recording, flow)) {
    this.recording = recording;
    this.flow = flow;
    this.layout = layout;
    this.hues = recording.names.map(hueOf);
    this.frames = recording.frames.filter((frame) => frame.from && frame.to && (flow < 0 || frame.flow === flow));
    const whole = flow < 0 ? recording : recording.flows[flow];
    const room = Math.max(0.02 * (whole.end - whole.begin), 1);
    this.whole = { from: whole.begin - room, to: whole.end + room };
    this.selected = -1;
    this.found = new Map();
    this.scroller.scrollTop = 0;
    this.measure();
    this.look(this.whole.from, this.whole.to);
  }

  // Shows the time between two moments, as far as it lies in the recording.
  look(from, to) {
    const most = this.whole.to - this.whole.from, length = Math.min(most, Math.max(kLeastShown, to - from));
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - length / 2, this.whole.from), this.whole.to - length);
    this.to = this.from + length;
    this.draw();
    this.changed();
  }

  zoom(factor, x = this.left + this.wide / 2) {
    const at = this.timeAt(x);
    this.look(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  // By a share of what is seen.
  pan(share) {
    const by = share * (this.to - this.from);
    this.look(this.from + by, this.to + by);
  }

  // Takes over how large the timeline is on the page, and how far it is scrolled.
  measure() {
    const { clientWidth, clientHeight, scrollTop } = this.scroller;
    Object.assign(this, { width: clientWidth, height: clientHeight, top: scrollTop, left: clientWidth < 620 ? 0 : 118 });
    this.wide = Math.max(1, this.width - this.left);
  }

  x(time) { return this.left + ((time - this.from) / (this.to - this.from)) * this.wide; }
  timeAt(x) { return this.from + ((x - this.left) / this.wide) * (this.to - this.from); }
  y(row) { return kAxis + row.y - this.top; }

  // Brings a call into view as a whole, and nearer when it would be a hair.
  reveal(call) {
    const { calls } = this.recording, row = rowOf(this.layout, this.recording, call);
    if (!row) return;
    this.selected = call;
    this.measure();
    const begin = calls.begin[call], length = calls.end[call] - begin, seen = this.to - this.from;
    if (this.y(row) < kAxis || this.y(row) + kRow > this.height) this.scroller.scrollTop = row.y - this.height / 3;
    if (length < seen / 200) this.look(begin - 4 * Math.max(length, kLeastShown), begin + 5 * Math.max(length, kLeastShown));
    else if (length > 0.9 * seen) this.look(begin - 0.2 * length, begin + 1.2 * length);
    else if (begin > this.to || begin + length < this.from) this.look(begin - 0.2 * seen, begin + 0.8 * seen);
    else this.draw();
  }

  // Marks what a search has found.
  mark(found) {
    this.found = new Map();
    for (const call of found) {
      const row = rowOf(this.layout, this.recording, call);
      if (row) this.found.has(row) ? this.found.get(row).push(call) : this.found.set(row, [call]);
    }
    this.draw();
  }

  // Returns the call at a place of the canvas; -1: there is none.
  callAt(x, y) {
    if (!this.recording) return -1;
    this.measure();
    if (y < kAxis || x < this.left) return -1;
    const row = this.layout.rows.find((one) => y >= this.y(one) && y < this.y(one) + kRow);
    if (!row) return -1;
    const { calls } = this.recording, near = this.timeAt(x - 2), at = firstAfter(calls, row.calls, near);
    return at < row.calls.length && calls.begin[row.calls[at]] <= this.timeAt(x + 2) ? row.calls[at] : -1;
  }

  draw() {
    if (!this.recording || this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.paint();
    });
  }

  paint() {
    const { canvas, context, tall, layout } = this;
    tall.style.height = `${layout.height + kAxis}px`;
    this.measure();
    if (this.width === 0) return; // another page is shown
    const colour = colours(canvas), { step, times } = steps(Math.max(0, this.from), this.to, Math.max(2, this.wide / 110));
    this.fit();
    context.clearRect(0, 0, this.width, this.height);
    context.fillStyle = colour.line;
    for (const time of times) context.fillRect(Math.round(this.x(time)), 0, 1, this.height);
    context.save();
    context.beginPath();
    context.rect(this.left, kAxis, this.wide, this.height);
    context.clip();
    const visible = (one, high) => this.y(one) + high > kAxis && this.y(one) < this.height;
    for (const row of layout.rows) if (visible(row, kRow)) this.paintRow(row, row.calls, colour, false);
    for (const [row, calls] of this.found) if (visible(row, kRow)) this.paintRow(row, calls, colour, true);
    this.paintArrows(colour);
    this.paintSelected(colour);
    context.restore();
    for (const heading of layout.headings) if (visible(heading, kHeading)) this.paintHeading(heading, colour);
    if (this.left > 0) for (const label of layout.labels) if (visible(label, kRow)) this.text(label.text, 6, this.y(label), this.left - 10, colour.quiet);
    this.paintAxis(step, times, colour);
  }

  // The canvas is as large as what is seen, in pixels of the screen.
  fit() {
    const { canvas, context, width, height } = this, scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = kFont;
    context.textBaseline = "middle";
    this.letter = context.measureText("abcdefghijklmnoprstuvw::").width / 24;
  }

  // Writes as much as there is room for.
  text(text, x, y, room, colour) {
    const letters = Math.floor(room / this.letter);
    if (letters < 2) return;
    this.context.fillStyle = colour;
    this.context.fillText(shortened(text, letters), x, y + kRow / 2);
  }

  paintRow(row, list, colour, found) {
    const { context, recording: { calls, names } } = this, y = this.y(row);
    for (let i = firstAfter(calls, list, this.from); i < list.length && calls.begin[list[i]] < this.to;) {
      const call = list[i], name = calls.name[call], x = this.x(calls.begin[call]), end = this.x(calls.end[call]);
      if (end - x < 1.5) {
        // All that ends within this pixel is drawn with it.
        context.fillStyle = found ? colour.gold : colour.edge[this.hues[name]];
        context.fillRect(Math.floor(x), y + 1, found ? 2 : 1, kRow - 2);
        i = firstAfter(calls, list, this.timeAt(Math.floor(x) + 1), i + 1);
        continue;
      }
      const begin = Math.max(x, this.left - 2), width = Math.min(end, this.width + 2) - begin - 0.5;
      if (found) {
        context.strokeStyle = colour.gold;
        context.lineWidth = 2;
        context.strokeRect(begin + 1, y + 2, Math.max(1, width - 2), kRow - 4);
      } else {
        this.paintCall(names[name], { name, begin, width, y }, colour);
      }
      ++i;
    }
  }

  paintCall(text, { name, begin, width, y }, colour) {
    const { context } = this, { waits, forOthers } = this.recording.roles[name], idle = waits || forOthers;
    context.fillStyle = idle ? colour.paper : colour.fill[this.hues[name]];
    context.fillRect(begin, y + 1, width, kRow - 2);
    if (idle) {
      context.strokeStyle = colour.line;
      context.lineWidth = 1;
      context.strokeRect(begin + 0.5, y + 1.5, Math.max(0.5, width - 1), kRow - 3);
    }
    const from = Math.max(begin, this.left) + 4;
    this.text(text, from, y, begin + width - from - 2, idle ? colour.quiet : colour.ink);
  }

  // An end of a frame is at the bottom of the call that sent it, or the middle of the one that received it.
  place(end) {
    const row = end.call >= 0 ? rowOf(this.layout, this.recording, end.call) : undefined, lane = this.layout.of.get(end.lane);
    const at = row ?? (lane && this.layout.rows[lane.first]);
    return at && { x: this.x(end.time), y: this.y(at) + kRow / 2 };
  }

  paintArrows(colour) {
    const { context } = this, drawn = new Set();
    for (const frame of this.frames) {
      if (Math.max(frame.from.time, frame.to.time) < this.from || Math.min(frame.from.time, frame.to.time) > this.to) continue;
      const a = this.place(frame.from), b = this.place(frame.to);
      if (!a || !b || (a.y < 0 && b.y < 0) || (a.y > this.height && b.y > this.height)) continue;
      // One of those that look the same is enough.
      const key = [a.x, a.y, b.x, b.y].map((value) => Math.round(value / 2)).join();
      if (drawn.has(key) || drawn.size >= kMostArrows) continue;
      drawn.add(key);
      const own = this.selected >= 0 && (frame.from.call === this.selected || frame.to.call === this.selected);
      this.arrow(a, b, own ? colour.bad : frame.goesOn ? colour.quiet : colour.gold, own ? 2 : 1);
    }
  }

  arrow(a, b, colour, width) {
    const { context } = this, bend = Math.max(12, Math.abs(b.x - a.x) / 2);
    Object.assign(context, { strokeStyle: colour, fillStyle: colour, lineWidth: width, globalAlpha: width > 1 ? 1 : 0.7 });
    context.beginPath();
    context.moveTo(a.x, a.y);
    context.bezierCurveTo(a.x + bend, a.y, b.x - bend, b.y, b.x - 3, b.y);
    context.stroke();
    context.beginPath();
    context.moveTo(b.x, b.y);
    context.lineTo(b.x - 6, b.y - 3.5);
    context.lineTo(b.x - 6, b.y + 3.5);
    context.fill();
    context.globalAlpha = 1;
  }

  paintSelected(colour) {
    const row = this.selected >= 0 && rowOf(this.layout, this.recording, this.selected);
    if (!row) return;
    const { calls } = this.recording, x = Math.max(this.x(calls.begin[this.selected]), this.left - 4), end = Math.min(this.x(calls.end[this.selected]), this.width + 4);
    this.context.strokeStyle = colour.ink;
    this.context.lineWidth = 2;
    this.context.strokeRect(x, this.y(row) + 1, Math.max(2, end - x), kRow - 2);
  }

  paintHeading({ y, process }, colour) {
    const { context, recording: { processes } } = this, at = this.y({ y }), { short, file } = processes[process];
    context.fillStyle = colour.card;
    context.fillRect(0, at, this.width, kHeading - 2);
    context.fillStyle = colour.line;
    context.fillRect(0, at, this.width, 1);
    context.font = kBold;
    this.text(short, 6, at + 2, this.width, colour.ink);
    const beside = 14 + context.measureText(short).width;
    context.font = kFont;
    this.text(file, beside, at + 2, this.width - beside - 6, colour.quiet);
  }

  paintAxis(step, times, colour) {
    const { context } = this;
    context.fillStyle = colour.card;
    context.fillRect(0, 0, this.width, kAxis);
    context.fillStyle = colour.line;
    context.fillRect(0, kAxis - 1, this.width, 1);
    context.textAlign = "center";
    context.fillStyle = colour.quiet;
    for (const time of times) {
      const text = moment(time, step), half = context.measureText(text).width / 2, x = this.x(time);
      if (x - half < 2 || x + half > this.width - 2) continue;
      context.fillText(text, x, kAxis / 2);
    }
    context.textAlign = "start";
  }
}
