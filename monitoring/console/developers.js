// Tables for developers: regions of code, models of their times, links, and every process that reports.
import { by, element, table } from "./dom.js";
import { counted, seconds } from "./format.js";

export function drawRegions({ regions }) {
  const columns = [{ name: "Region" }, { name: "Per second", number: true }, { name: "Typical", number: true }, { name: "99 % within", number: true }, { name: "Processes", number: true }, { name: "Slowest" }];
  const rows = regions.map((region) => ({
    className: region.processes > 2 && region.slowest_factor >= 3 ? "warn" : "",
    cells: [element("code", "", region.region), region.per_second.toFixed(region.per_second < 10 ? 1 : 0), seconds(region.typical_s), seconds(region.p99_s), String(region.processes),
      region.processes > 1 ? `${region.slowest}, ${seconds(region.slowest_s)}` : ""],
  }));
  by("region-list").replaceChildren(...(rows.length ? table(columns, rows, "regions") : [element("div", "empty", "No process has reported times yet.")]));
}

// Only a monitor with the setting `behaviour` has any.
export function drawModels({ models }) {
  by("models").hidden = models.length === 0;
  const columns = [{ name: "Process" }, { name: "Region" }, { name: "Of it" }, { name: "R²", number: true }, { name: "Executions", number: true }, { name: "Explained by" }, { name: "" }];
  const rows = models.map((model) => ({
    className: "",
    cells: [model.kind, element("code", "", model.region), model.observation, model.r2.toFixed(2), String(model.executions), model.inputs.join(", ") || "–",
      model.usable ? "executions are judged by it" : "not used"],
  }));
  by("model-list").replaceChildren(...table(columns, rows, "models"));
}

export function drawLinks({ devices }) {
  const columns = [{ name: "Process" }, { name: "Peer" }, { name: "Latency", number: true }, { name: "Against others", number: true }, { name: "Requests/s", number: true },
    { name: "Oldest", number: true }];
  // What does not answer has no latency, and comes first all the same.
  const waits = (device) => device.oldest_pending_s > 5;
  const links = devices.filter((device) => device.kind === "link");
  const ordered = [...links.filter(waits), ...links.filter((device) => !waits(device))];
  const rows = ordered.map((device) => ({
    className: device.factor >= 3 || device.oldest_pending_s > 5 ? "warn" : "",
    cells: [device.name, element("code", "", device.device), device.latency_s > 0 ? seconds(device.latency_s) : "–", device.factor > 0 ? `${device.factor.toFixed(1)} ×` : "–",
      device.requests_per_s.toFixed(1), device.oldest_pending_s > 0 ? seconds(device.oldest_pending_s) : "–"],
  }));
  by("link-list").replaceChildren(...(rows.length ? table(columns, rows, "links") : [element("div", "empty", "No process has reported links yet.")]));
}

export function drawProcesses({ processes }) {
  by("processes-note").textContent = counted(processes.length, "process", "processes");
  const columns = [{ name: "Process" }, { name: "Kind" }, { name: "Address" }, { name: "Last report", number: true }, { name: "Up for", number: true }, { name: "Open", number: true },
    { name: "Oldest task", number: true }, { name: "Loop lag", number: true }, { name: "Lost records", number: true }];
  const rows = processes.map((process) => ({
    className: process.stalled_s > 1 ? "bad" : process.silent_s > 3 && !process.ended ? "warn" : "",
    cells: [process.name, process.kind, element("code", "", process.address), process.ended ? "ended" : seconds(process.silent_s), seconds(process.uptime_s), String(process.open),
      process.oldest_s > 0 ? seconds(process.oldest_s) : "–", process.stalled_s > 1 ? `stuck ${seconds(process.stalled_s)}` : seconds(process.loop_lag_s), String(process.dropped)],
  }));
  by("process-list").replaceChildren(...(rows.length ? table(columns, rows, "processes") : [element("div", "empty", "No process reports yet.")]));
}
