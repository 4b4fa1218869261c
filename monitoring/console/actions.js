// What an operator may change: buttons, and a dialog that says what will happen and asks for a token. The monitor passes the
// token on to the metaserver, which decides. It is kept in the field of the dialog and nowhere else, and not for long.
import { by, element } from "./dom.js";
import { clock, counted, rate, seconds } from "./format.js";

const kForget = 10 * 60 * 1000; // milliseconds after it was typed or used last

// What some actions ask for besides: the field's label and bounds, the name in the query, and how much of it a unit of the field is.
const kHours = { label: "For how many hours at most", name: "seconds", unit: 3600, least: 0.25, most: 24, step: 0.25, usual: 2 };
const kRate = { label: "MiB a second at each server", name: "rate", unit: 1 << 20, least: 4, most: 1 << 20, step: 1, usual: 50 };

// One row for each action; the monitor has the same (monitoring/daemon/actions.cc). Those with `ofCluster` are about repairs and
// no server.
const kActions = {
  drain: { label: "Drain", offered: (server) => !server.draining,
    will: (server) => `${server.name} gets no new chunks, and its ${counted(server.chunks, "chunk")} will be moved to other servers; reads and writes continue meanwhile.` },
  undrain: { label: "Take the drain back", offered: (server) => server.draining,
    will: (server) => `${server.name} takes new chunks again; what was moved away stays where it is.` },
  maintain: { label: "Maintenance", value: kHours, offered: (server) => !server.maintenance_s,
    will: (server) => `${server.name} will be away for a while. Meanwhile its chunks are rebuilt only where one more loss would make data unreadable, or where other chunks are lost too.` },
  "end-maintenance": { label: "End the maintenance", offered: (server) => server.maintenance_s > 0,
    will: (server) => `${server.name} is not expected to be away any more: if it is dead, its chunks are rebuilt as those of any other server.` },
  remove: { label: "Remove", offered: (server) => (server.draining || server.liveness === "dead") && server.chunks === 0,
    will: (server) => `${server.name} is forgotten; stop its daemon afterwards, because the server joins again when its daemon is restarted.` },
  "limit-repairs": { label: "Limit repairs", ofCluster: true, value: kRate, offered: () => true,
    will: () => "No server sends or receives more than this for repairs and moves, which take longer then. Repairs of stripes that cannot lose another chunk are not slowed." },
  "unlimit-repairs": { label: "Take the limit away", ofCluster: true, offered: (repairs) => repairs.limit_rate > 0,
    will: ({ limit_rate: limit }) => `Repairs may again send and receive more than ${rate(limit)} at each server.` },
};

let asked = null; // action, server, and the button that was pressed, as `data-focus` names it
let forgetting;

// From now on the token is kept for so long.
function keepToken() {
  clearTimeout(forgetting);
  forgetting = setTimeout(() => { by("action-token").value = ""; }, kForget);
}

// How far a server's drain is; empty: it is not drained.
export function drainProgress({ draining, chunks }) {
  if (!draining) return "";
  return chunks === 0 ? "done: nothing is on it any more, and it may be removed" : `${counted(chunks, "chunk")} still to be moved`;
}

// Until when a server is in maintenance; empty: it is not.
export function maintenanceEnd({ maintenance_s: left }, now = Date.now() / 1000) {
  return left > 0 ? `until ${clock(now + left)}, for ${seconds(left)} still` : "";
}

// The buttons of a server, or those for repairs.
const actionsOf = (subject, ofCluster) => {
  const offered = Object.entries(kActions).filter(([, action]) => (action.ofCluster ?? false) === ofCluster && action.offered(subject));
  return element("div", "choices actions", ...offered.map(([name, { label }]) => {
    const button = element("button", "", `${label} …`);
    button.type = "button";
    button.dataset.focus = `action ${name} ${subject.name ?? "repairs"}`;
    button.addEventListener("click", () => open(name, subject, button.dataset.focus));
    return button;
  }));
};
export const actionsOfServer = (server) => actionsOf(server, false);
export const actionsOfRepairs = (repairs) => actionsOf(repairs, true);

function open(name, subject, focus) {
  const { label, will, value } = kActions[name];
  asked = { name, subject, focus };
  by("action-title").textContent = subject.name ? `${label}: ${subject.name}` : label;
  by("action-what").textContent = will(subject);
  by("action-number").hidden = !value;
  const field = by("action-value");
  field.disabled = !value; // a field that is not shown must not keep the form from being sent
  if (value) {
    by("action-value-label").textContent = value.label;
    Object.assign(field, { min: value.least, max: value.most, step: value.step, value: value.usual });
  }
  by("action-do").textContent = label;
  told("", "");
  by("action-do").disabled = false; // one that was cancelled may be under way still
  by("action-fields").hidden = false;
  by("action").showModal();
  (value ? field : by("action-token").value ? by("action-do") : by("action-token")).focus();
}

// `level`: "", "good" or "bad".
function told(level, text) {
  by("action-outcome").className = level;
  by("action-outcome").textContent = text;
  by("action-close").textContent = level === "good" ? "Close" : "Cancel";
}

// What the query says of the action: the server, and the number of the field.
function queryOf({ name, subject }) {
  const { ofCluster, value } = kActions[name];
  const parts = ofCluster ? [] : [`server=${subject.server_id}`];
  if (value) parts.push(`${value.name}=${Math.round(by("action-value").valueAsNumber * value.unit)}`);
  return parts.length ? `?${parts.join("&")}` : "";
}

async function send() {
  const token = by("action-token").value.trim();
  try {
    // Without what the browser has learnt: neither is it sent, nor does the browser ask for another one.
    const answer = await fetch(`api/v1/actions/${asked.name}${queryOf(asked)}`, { method: "POST", credentials: "omit",
      headers: { Authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(15000) });
    return { level: answer.ok ? "good" : "bad", refused: [401, 403].includes(answer.status),
      text: `${{ 200: "✓ Done.", 503: "✕ It is not known whether this was done:" }[answer.status] ?? "✕ Not done:"} ${(await answer.text()).trim()}` };
  } catch (error) {
    return { level: "bad", text: `✕ It is not known whether this was done: the monitor does not answer (${error.message})` };
  }
}

async function act(event) {
  event.preventDefault();
  const button = by("action-do");
  if (button.disabled) return;
  const mine = asked;
  button.disabled = true;
  told("", "Asking the metaserver …");
  keepToken();
  const { level, refused, text } = await send();
  if (asked !== mine) return; // the dialog is about something else by now
  button.disabled = false;
  told(level, text);
  by("action-fields").hidden = level === "good";
  if (level === "good") by("action-close").focus();
  if (refused) by("action-token").select();
}

export function actions() {
  by("action-form").addEventListener("submit", act);
  by("action-token").addEventListener("input", keepToken);
  by("action-close").addEventListener("click", () => by("action").close());
  // The page may have been drawn again meanwhile, with another button in the place of that one.
  by("action").addEventListener("close", () => document.querySelector(`[data-focus="${CSS.escape(asked.focus)}"]`)?.focus());
}
