// Draws small directed graphs in which everything leads to few sinks, as wait chains and repair trees, or comes from few sources, as
// calls. Sinks are on the right, or at the bottom where there is little width.

const NS = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, text = null) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

function shortened(text, most) {
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}

// Of a calling context the end matters: "… > disk.read".
function ending(text, most) {
  if (text.length <= most) return text;
  const parts = text.split(" > ");
  while (parts.length > 1 && parts.join(" > ").length + 4 > most) parts.shift();
  return shortened(parts.length > 1 || text.includes(" > ") ? "… > " + parts.join(" > ") : text, most);
}

// How far each node is from the sinks. Nodes from which none is reached stand farthest left.
function depths(nodes, edges) {
  const leads = new Set(edges.map((edge) => edge.from));
  const sinks = nodes.filter((node) => node.kind === "root" || !leads.has(node.id)).map((node) => node.id);
  const depth = new Map(sinks.map((id) => [id, 0]));
  for (let layer = sinks, next = 1; layer.length > 0; ++next) {
    const reached = edges.filter((edge) => layer.includes(edge.to) && !depth.has(edge.from)).map((edge) => edge.from);
    for (const id of reached) depth.set(id, next);
    layer = [...new Set(reached)];
  }
  const most = Math.max(0, ...depth.values());
  for (const node of nodes) if (!depth.has(node.id)) depth.set(node.id, most + 1);
  return depth;
}

let drawn = 0; // graphs, each of which has an arrowhead of its own: that of a hidden page is not drawn

const kSizes = { wide: { w: 216, gap: 66 }, narrow: { w: 116, gap: 58 }, apart: { w: 216, gap: 150 } };

// How wide a graph is when it goes from left to right.
export function naturalWidth(nodes, edges, size) {
  return (Math.max(...depths(nodes, edges).values()) + 1) * (kSizes[size].w + kSizes[size].gap) - kSizes[size].gap + 4;
}

// nodes: {id, title, lines, kind: "", "sink", "root" or "source"}; edges: {from, to, label, flows}; size: "wide" or "narrow" nodes, or
// wide ones "apart", so that labels have room. Returns an element.
export function graph(nodes, edges, description, width, size) {
  const vertical = width < 620;
  const w = vertical ? Math.min(width - 4, 300) : kSizes[size].w, lineHeight = 15;
  const h = 28 + lineHeight * Math.max(...nodes.map((node) => node.lines.length));
  const gapX = kSizes[size].gap, gapY = vertical ? 34 : 14;
  const depth = depths(nodes, edges);
  const most = Math.max(...depth.values());
  const layers = Array.from({ length: most + 1 }, () => []);
  for (const node of nodes) layers[most - depth.get(node.id)].push(node);
  // A node stands where the ones that it leads to stand, as far as there is room.
  const target = new Map(edges.map((edge) => [edge.from, edge.to]));
  const fanOut = new Map();
  for (const { from } of edges) fanOut.set(from, (fanOut.get(from) ?? 0) + 1);
  const place = new Map();
  let length = 0;
  if (vertical) {
    layers.flat().forEach((node, i) => place.set(node.id, { x: 2, y: 2 + i * (h + gapY) }));
    length = layers.flat().length * (h + gapY) - gapY;
  } else {
    const tallest = Math.max(...layers.map((layer) => layer.length));
    length = tallest * (h + gapY) - gapY;
    for (let i = most; i >= 0; --i) {
      const layer = layers[i];
      layer.sort((a, b) => (place.get(target.get(a.id))?.y ?? 0) - (place.get(target.get(b.id))?.y ?? 0));
      const top = (length - (layer.length * (h + gapY) - gapY)) / 2;
      layer.forEach((node, j) => place.set(node.id, { x: 2 + i * (w + gapX), y: 2 + top + j * (h + gapY) }));
    }
  }
  const across = vertical ? w + 4 : (most + 1) * (w + gapX) - gapX + 4;
  const root = svg("svg", { width: across, height: length + 4, viewBox: `0 0 ${across} ${length + 4}`, role: "img", "aria-label": description });
  const marker = svg("marker", { id: `arrow-${++drawn}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" });
  marker.append(svg("path", { d: "M0 0L8 4L0 8z", class: "arrow" }));
  const definitions = svg("defs");
  definitions.append(marker);
  root.append(definitions);
  for (const edge of edges) {
    const a = place.get(edge.from), b = place.get(edge.to);
    if (!a || !b) continue;
    let d, at;
    if (vertical) {
      const near = Math.abs(b.y - a.y) < h + gapY + 1;
      d = near ? `M${a.x + 24} ${a.y + h}L${b.x + 24} ${b.y}`
               : `M${a.x + w - 14} ${a.y + h}C${a.x + w + 3} ${a.y + h + 20} ${b.x + w + 3} ${b.y - 20} ${b.x + w - 14} ${b.y}`;
      at = { x: a.x + 34, y: a.y + h + 20 };
    } else {
      const x1 = a.x + w, y1 = a.y + h / 2, x2 = b.x, y2 = b.y + h / 2, half = (x2 - x1) / 2;
      d = `M${x1} ${y1}C${x1 + half} ${y1} ${x2 - half} ${y2} ${x2} ${y2}`;
      at = { x: x1 + 4, y: y2 < y1 - 1 ? y1 + 14 : y1 - 6 };
    }
    root.append(svg("path", { d, class: edge.flows ? "edge flows" : "edge", "marker-end": `url(#${marker.id})` }));
    // Where several edges begin, each label stands where its edge ends.
    const fans = fanOut.get(edge.from) > 1;
    if (fans) at = { x: vertical ? b.x + w - 22 : b.x - 10, y: vertical ? b.y - 8 : b.y + h / 2 - 6 };
    if (edge.label) root.append(svg("text", { x: at.x, y: at.y, class: "small label", "text-anchor": fans ? "end" : "start" }, edge.label));
  }
  for (const node of nodes) {
    const at = place.get(node.id);
    const group = svg("g");
    group.append(svg("title", {}, [node.title, ...node.lines].join("\n")));
    group.append(svg("rect", { x: at.x, y: at.y, width: w, height: h, rx: 8, class: `node ${node.kind}` }));
    const letters = Math.floor((w - 16) / 7.1);
    group.append(svg("text", { x: at.x + 10, y: at.y + 19, class: size === "narrow" ? "title narrow" : "title" }, shortened(node.title, letters)));
    node.lines.forEach((line, i) =>
      group.append(svg("text", { x: at.x + 10, y: at.y + 20 + lineHeight * (i + 1), class: "small" }, ending(line, letters + 2))));
    root.append(group);
  }
  const frame = document.createElement("div");
  frame.className = "graph";
  frame.tabIndex = 0;
  frame.append(root);
  return frame;
}
