// Which document tells what to do about an alarm. The monitor serves them.

const kByKind = { device: "runbooks/sick_disk.md", pauses: "runbooks/sick_disk.md", messages: "runbooks/sick_disk.md", full: "runbooks/full_cluster.md",
  "runs out": "forecasts.md", silent: "failures.md", unreached: "failures.md", link: "failures.md", losses: "failures.md", errors: "runbooks/daemons.md", clock: "operations.md" };

export const runbookOf = (alarm) => `docs/${kByKind[alarm.kind] ?? "diagnosis.md"}`;
