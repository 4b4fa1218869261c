// Compares the last minutes with the two hours before, when somebody asks for it: it takes the monitor seconds.
import { askMonitor, whyNot } from "./ask.js";
import { by, element } from "./dom.js";
import { counted } from "./format.js";

const paragraph = (className, text) => element("p", className, text);

// A line of a finding begins with its server, what belongs to it is indented.
function drawn(document_) {
  if (document_.problem) return [paragraph("quiet", `Not compared: ${document_.problem}.`)];
  return [element("ul", "findings", ...document_.lines.map((line) => element("li", line.startsWith("  ") ? "quiet" : "", line.trim())))];
}

async function compare(minutes, button) {
  const body = by("unlike-body"), server = by("history-server").value;
  button.disabled = true;
  body.replaceChildren(paragraph("quiet", `Comparing the last ${counted(minutes, "minute")} of ${server || "all daemons"} with the two hours before …`));
  try {
    const query = new URLSearchParams({ since: String(minutes * 60), ...(server && { server }) });
    const answer = await askMonitor(`unlike?${query}`, 120000);
    body.replaceChildren(...drawn(await answer.json()));
  } catch (error) {
    body.replaceChildren(paragraph("quiet", whyNot(error)));
  } finally {
    button.disabled = false;
  }
}

export function unlike() {
  by("unlike-choices").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) compare(Number(button.dataset.minutes), button);
  });
}
