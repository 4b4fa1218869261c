// What an operator may change: buttons, and a dialog that says what will happen and asks for a token. The monitor passes the
// token on to the metaserver, which decides. It is kept in the field of the dialog and nowhere else, and not for long.
import { by, element } from "./dom.js";
import { counted } from "./format.js";

const kForget = 10 * 60 * 1000; // milliseconds after it was typed or used last

// One row for each action; the monitor has the same (monitoring/daemon/actions.cc).
const kActions = {
  drain: { label: "Drain", offered: (server) => !server.draining,
    will: (server) => `${server.name} gets no new chunks, and its ${counted(server.chunks, "chunk")} will be moved to other servers; reads and writes continue meanwhile.` },
  undrain: { label: "Take the drain back", offered: (server) => server.draining,
    will: (server) => `${server.name} takes new chunks again; what was moved away stays where it is.` },
  remove: { label: "Remove", offered: (server) => (server.draining || server.liveness === "dead") && server.chunks === 0,
    will: (server) => `${server.name} is forgotten; stop its daemon afterwards, because the server joins again when its daemon is restarted.` },
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

// The buttons of a server.
export function actionsOf(server) {
  const buttons = Object.entries(kActions).filter(([, action]) => action.offered(server)).map(([name, { label }]) => {
    const button = element("button", "", `${label} …`);
    button.type = "button";
    button.dataset.focus = `action ${name} ${server.name}`;
    button.addEventListener("click", () => open(name, server, button.dataset.focus));
    return button;
  });
  return element("div", "choices actions", ...buttons);
}

function open(name, server, focus) {
  const { label, will } = kActions[name];
  asked = { name, server, focus };
  by("action-title").textContent = `${label}: ${server.name}`;
  by("action-what").textContent = will(server);
  by("action-do").textContent = label;
  told("", "");
  by("action-do").disabled = false; // one that was cancelled may be under way still
  by("action-fields").hidden = false;
  by("action").showModal();
  (by("action-token").value ? by("action-do") : by("action-token")).focus();
}

// `level`: "", "good" or "bad".
function told(level, text) {
  by("action-outcome").className = level;
  by("action-outcome").textContent = text;
  by("action-close").textContent = level === "good" ? "Close" : "Cancel";
}

async function send() {
  const { name, server } = asked, token = by("action-token").value.trim();
  try {
    // Without what the browser has learnt: neither is it sent, nor does the browser ask for another one.
    const answer = await fetch(`api/v1/actions/${name}?server=${server.server_id}`, { method: "POST", credentials: "omit",
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
  if (asked !== mine) return; // the dialog is about another server by now
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
