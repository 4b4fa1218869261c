// Times of recordings, which are microseconds with three decimals, and names of functions where there is little room.
import { counted, grouped } from "./format.js";

// "12.345 µs", "808.778 ms", "1.250 s".
export function lasted(us) {
  if (us < 1e3) return `${us.toFixed(3)} µs`;
  return us < 1e6 ? `${(us / 1e3).toFixed(3)} ms` : `${(us / 1e6).toFixed(3)} s`;
}

const kUnits = [[1e6, "s"], [1e3, "ms"], [1, "µs"]];

// A time to the last digit that matters when steps are so far apart: "1,234.56 ms". The unit is not larger than so many steps.
export function moment(us, step, of_unit = 10) {
  const [unit, name] = kUnits.find(([size]) => step * of_unit >= size) ?? kUnits.at(-1);
  const digits = Math.min(6, Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9)));
  const [whole, ...rest] = (us / unit).toFixed(digits).split(".");
  return `${[grouped(whole), ...rest].join(".")} ${name}`;
}

// Whole steps of 1, 2 or 5 times a power of ten, at most so many between two times. Returns them with their distance.
export function steps(from, to, most) {
  const raw = (to - from) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * (1 - 1e-9));
  const times = [], first = Math.ceil(from / step);
  // Counted, since beyond 2^53 a number and the next one are the same. So are then times that stand so near to one another.
  for (let i = 0; i <= most + 1; ++i) {
    const time = (first + i) * step;
    if (time <= to && time !== times.at(-1)) times.push(time);
  }
  return { step, times };
}

// The end of a name says most: "Handler::serve" of "chunkserver::ReadChunkHandler::serve" when there is little room.
export function shortened(name, letters) {
  if (name.length <= letters) return name;
  const parts = name.split("::");
  while (parts.length > 1 && parts.join("::").length > letters) parts.shift();
  const end = parts.join("::");
  return end.length <= letters ? end : letters > 2 ? `${end.slice(0, letters - 1)}…` : "";
}

// "ReadChunk, WriteChunk and 3 others".
export function listed(names, most) {
  if (names.length <= most) return names.join(", ");
  return `${names.slice(0, most).join(", ")} and ${counted(names.length - most, "other")}`;
}
