// Numbers as people read them.

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
export const counted = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;
export const clock = (unix) => new Date(unix * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "medium" });
export const place = (file, line) => (file ? `${file.split("/").pop()}${line ? ":" + line : ""}` : "");
