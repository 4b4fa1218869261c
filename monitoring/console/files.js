// What the cluster holds by names: files, quotas, snapshots.
import { by, element, empty, facts, meter, table } from "./dom.js";
import { byName, bytes, clock, grouped, percent } from "./format.js";

function ofLimit(value, most, write) {
  if (most === null) return `${write(value)}, no limit`;
  const share = most > 0 ? value / most : 1;
  return element("div", "used", meter(share, share >= 1 ? "bad" : share >= 0.9 ? "warn" : ""), element("span", "", `${percent(share)} of ${write(most)}`));
}

const level = (quota) => {
  const share = Math.max(quota.most_bytes === null ? 0 : quota.bytes / Math.max(quota.most_bytes, 1), quota.most_files === null ? 0 : quota.files / Math.max(quota.most_files, 1));
  return share >= 1 ? "bad" : share >= 0.9 ? "warn" : "";
};

export function drawFiles({ overview: { space, stripes }, names }) {
  by("files-numbers").replaceChildren(element("div", "card", facts([["Files", grouped(space.files)], ["Stripes", grouped(stripes.all)], ["Stored, with parity", bytes(space.stored_bytes)],
    ["Room for", `${bytes(space.storable_bytes)} of files with ${space.policy}`]])));
  const unknown = names.known ? "" : "The metaserver has not listed them yet.";
  const quotas = [...names.quotas].sort((a, b) => byName(a.path, b.path)).map((quota) => ({ className: level(quota), cells: [element("code", "", quota.path),
    ofLimit(quota.bytes, quota.most_bytes, bytes), ofLimit(quota.files, quota.most_files, grouped), quota.counting ? "still counting" : ""] }));
  by("quota-list").replaceChildren(...(quotas.length ? table([{ name: "Directory" }, { name: "Bytes" }, { name: "Names" }, { name: "" }], quotas, "quotas")
    : [empty(unknown || "No directory has a quota. `kintsugi quota set` limits a directory, and counts what it holds.")]));
  const snapshots = [...names.snapshots].sort((a, b) => b.created_unix_s - a.created_unix_s).map((snapshot) => ({ cells: [element("code", "", snapshot.path), snapshot.name,
    clock(snapshot.created_unix_s), bytes(snapshot.kept_bytes), snapshot.deleting ? "being deleted" : ""] }));
  by("snapshot-list").replaceChildren(...(snapshots.length ? table([{ name: "Directory" }, { name: "Snapshot" }, { name: "Made" }, { name: "Keeps", number: true }, { name: "" }], snapshots, "snapshots")
    : [empty(unknown || "There is no snapshot. `kintsugi snapshot create` makes one.")]));
}
