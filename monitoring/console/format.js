// Numbers and times as people read them.

export function seconds(s) {
  if (s === null || s === undefined) return "–";
  if (s === 0) return "0";
  if (s < 1e-3) return `${(s * 1e6).toFixed(0)} µs`;
  if (s < 1) return `${(s * 1e3).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 100) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 6000) return `${(s / 60).toFixed(0)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(0)} d`;
}

export function bytes(b) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (b >= 1024 && i + 1 < units.length) { b /= 1024; ++i; }
  return `${i === 0 || b >= 100 ? b.toFixed(0) : b.toFixed(1)} ${units[i]}`;
}

export const rate = (b) => (b === null || b === undefined ? "" : `${bytes(b)}/s`);
export const grouped = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
export const counted = (n, one, many = one + "s") => `${grouped(n)} ${n === 1 ? one : many}`;
export const percent = (share) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
export const place = (file, line) => (file ? `${file.split("/").pop()}${line ? ":" + line : ""}` : "");
// "chunkserver-10" comes after "chunkserver-9".
export const byName = (a, b) => a.localeCompare(b, "en", { numeric: true });

const kTime = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
  second: "2-digit", hourCycle: "h23", timeZoneName: "short" });

function parts(unix) {
  return Object.fromEntries(kTime.formatToParts(new Date(unix * 1000)).map((part) => [part.type, part.value]));
}

// "2026-11-28 17:05:09 UTC": 24 hours, in the zone of the browser.
export function clock(unix) {
  const p = parts(unix);
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second} ${p.timeZoneName}`;
}

export const zone = () => parts(0).timeZoneName;

// A tick of a time axis of so many seconds: "17:05", with seconds or the day where they matter.
export function tick(unix, span) {
  const p = parts(unix);
  if (span < 300) return `${p.hour}:${p.minute}:${p.second}`;
  if (span <= 90000) return `${p.hour}:${p.minute}`;
  return span <= 260000 ? `${p.month}-${p.day} ${p.hour}:${p.minute}` : `${p.month}-${p.day}`;
}
