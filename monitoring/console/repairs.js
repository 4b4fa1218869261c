// Repairs: how many, how long they will take, how fast they are, and the trees of those that run.
import { actionsOfRepairs } from "./actions.js";
import { badge, by, element, empty, facts } from "./dom.js";
import { bytes, counted, grouped, rate, seconds } from "./format.js";
import { graph, naturalWidth } from "./graph.js";
import { repairsInWords } from "./overview.js";

const kShown = 8;

// The trees of a repair: edges come tree by tree, and a tree begins with an edge to the root.
function treesOf(repair) {
  const root = repair.nodes.find((node) => node.root)?.id;
  const begins = repair.edges.map((edge, i) => (edge.to === root ? i : -1)).filter((i) => i >= 0);
  if (repair.trees < 2 || begins.length !== repair.trees) return [repair.edges];
  return begins.map((from, i) => repair.edges.slice(from, begins[i + 1] ?? repair.edges.length));
}

function treeOf(repair, tree, description, width) {
  const members = new Set(tree.flatMap((edge) => [edge.from, edge.to]));
  const nodes = repair.nodes.filter((node) => members.has(node.id)).map((node) => ({ id: node.id, title: node.name,
    lines: [node.root ? (repair.kind === "read" ? "reads it" : "writes it") : "helper"], kind: node.root ? "root" : "" }));
  const edges = tree.map((edge) => ({ from: edge.from, to: edge.to, label: edge.rate > 0 ? rate(edge.rate) : "", flows: edge.rate === null || edge.rate > 0 }));
  if (nodes.length < 2) return null;
  return { drawn: graph(nodes, edges, `${description}, of ${counted(nodes.length - 1, "helper")}`, width, "narrow"), long: naturalWidth(nodes, edges, "narrow") > width / 2 - 30 };
}

function repairCard(repair, width) {
  const trees = treesOf(repair).map((tree, i, all) => treeOf(repair, tree, `Tree ${i + 1} of ${all.length}`, width)).filter(Boolean);
  trees.forEach((tree, i) => { tree.drawn.dataset.focus = `tree ${repair.repair_id} ${i}`; });
  const lines = [`${bytes(repair.bytes)} · ${repair.policy}${repair.trees > 1 ? ` · ${repair.trees} trees` : ""}`,
    `running for ${seconds(repair.running_s)}, estimated ${seconds(repair.estimated_s)}`, repair.attempt > 1 ? `attempt ${repair.attempt}` : "", repair.reason].filter(Boolean);
  return element("article", trees.some((tree) => tree.long) ? "card long" : "card", element("h3", "", `${repair.kind} of ${repair.stripe_id}:${repair.index}`, badge(repair.shape)),
    element("p", "quiet", lines.join(" · ")), ...trees.map((tree) => tree.drawn));
}

export function drawRepairs({ repairs, overview }) {
  by("repair-numbers").replaceChildren(element("div", "card", facts([["Data", overview.data.sentence], ["Now", repairsInWords({ ...repairs, running: repairs.running.length })],
    ["Missing chunks", grouped(overview.stripes.missing_chunks)], ["Done", `${grouped(repairs.done)}, ${bytes(repairs.bytes_repaired)}`],
    ["Failed", grouped(repairs.failed)], ["Begin", `${seconds(repairs.delay_s)} after a server's death; at once for stripes that can lose at most one chunk more`],
    ["Limit", repairs.limit_rate > 0 ? `${rate(repairs.limit_rate)} at each server, each way` : ""]]), actionsOfRepairs(repairs)));
  const width = by("repair-list").clientWidth - 40;
  const shown = repairs.running.slice(0, kShown).map((repair) => repairCard(repair, width));
  if (repairs.running.length > kShown) shown.push(empty(`and ${repairs.running.length - kShown} more`));
  by("repair-list").replaceChildren(shown.length ? element("div", "repairs", ...shown) : empty("No repair runs now."));
}
