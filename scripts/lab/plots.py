"""Draws an experiment's JSON. A series has the same colour everywhere; whiskers are minimum and maximum of the runs, hollow
diamonds the text's points, short black lines floors.

[plot] of an experiment, or [[plot.also]] for further pictures of it (keys not given are those of [plot]):
    layout   "grouped" (bars at each x, one for each series), "bars" (one for each row), "lines" (x is a number),
             "stacked" (`parts` on top of each other)
    x, y     keys of the rows; y_label, x_label; y_max, log
    panel    keys: a picture for each combination of their values; `series` and `where` choose rows
    floor    key of a row's floor in units of y; lines = [{ y, label }]
    paper    [{ x, y, series, panel }]
    name     appended to the file's name
"""

import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402

from results import matches  # noqa: E402

# By the first word that is found in the series' name.
COLOURS = {"staggered": "#a6a6a6", "star": "#595959", "unsliced": "#d95f02", "ppr": "#e6ab02", "m-ppr": "#d95f02",
           "greedy": "#d95f02", "weighted": "#7570b3", "chain": "#1b9e77", "joint": "#1f78b4", "auto": "#1f78b4",
           "trees": "#1f78b4", "local": "#c7b299", "put": "#d95f02", "get": "#1b9e77", "bound": "#000000"}
PARTS = {"network": "#1f78b4", "read": "#d95f02", "compute": "#1b9e77", "write": "#7570b3", "plan": "#e7298a"}
SPARE = ["#e7298a", "#66a61e", "#a6761d", "#666666"]
WIDTH_INCHES, DPI = 8.4, 110
RISES_WITH_TIME = ("seconds", "times_c_over_b", "ratio_to", "compute")


def colour(name, fallback=0):
    return next((c for word, c in COLOURS.items() if word in name.lower()), SPARE[fallback % len(SPARE)])


def hatch(name):
    return "///" if "cache" in name and "no cache" not in name or "measured" in name else None


def spread(row, key):
    """How far below and above the row's value the runs went."""
    value, median = row[key], row.get("median_seconds")
    if not median or "min_seconds" not in row:
        return 0, 0
    low, high = row["min_seconds"] / median, row["max_seconds"] / median
    if key.startswith("percent_less"):
        ends = [100 - (100 - value) * high, 100 - (100 - value) * low]
    elif key.startswith(RISES_WITH_TIME) or key.endswith("_seconds") and key == "median_seconds":
        ends = [value * low, value * high]
    elif key.startswith("times_") or key.endswith("per_second"):
        ends = [value / high, value / low]
    else:
        return 0, 0
    return max(0, value - ends[0]), max(0, ends[1] - value)


def unique(values):
    return list(dict.fromkeys(values))


def draw_panel(axes, rows, plot, panel):
    {"grouped": grouped, "bars": bars, "lines": lines, "stacked": stacked}[plot["layout"]](axes, rows, plot, panel)
    for line in plot.get("lines", []):
        axes.axhline(line["y"], color="#b2182b", linewidth=0.9, linestyle="--", label=line["label"])
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if plot.get("log"):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0, top=plot.get("y_max"))


def papers(plot, panel, **where):
    for point in plot.get("paper", []):
        if ("panel" not in point or point["panel"] == list(panel)) and all(point.get(k, v) == v for k, v in where.items()):
            yield point


def diamond(axes, x, y, edge):
    axes.plot([x], [y], marker="D", markersize=6.5, markerfacecolor="white", markeredgecolor=edge, markeredgewidth=1.4,
              linestyle="none", zorder=5)


def grouped(axes, rows, plot, panel):
    xs, names = unique(r[plot["x"]] for r in rows), unique(r["series"] for r in rows)
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        for row in (r for r in rows if r["series"] == name):
            at = xs.index(row[plot["x"]]) + (number - (len(names) - 1) / 2) * width
            bar(axes, at, width * 0.92, row, plot, colour(name, number), hatch(name), name)
            for point in papers(plot, panel, series=name, x=row[plot["x"]]):
                diamond(axes, at, point["y"], colour(name, number))
    axes.set_xticks(range(len(xs)), [str(x) for x in xs])


def bars(axes, rows, plot, panel):
    rows = [r for r in rows if r.get(plot["y"]) is not None]
    for number, row in enumerate(rows):
        bar(axes, number, 0.7, row, plot, colour(row["series"], number), hatch(row["series"]), None)
        for point in papers(plot, panel, series=row["series"]):
            diamond(axes, number, point["y"], colour(row["series"], number))
    axes.set_xticks(range(len(rows)), [str(r[plot["x"]]).replace(" ", "\n", 1).replace("/", "\n") for r in rows])


def bar(axes, at, width, row, plot, fill, pattern, label):
    if row.get(plot["y"]) is None:
        return
    below, above = spread(row, plot["y"])
    axes.bar(at, row[plot["y"]], width, color=fill, hatch=pattern, edgecolor="white", linewidth=0, label=label,
             yerr=[[below], [above]], error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#222222"})
    if plot.get("values"):
        axes.annotate(f"{row[plot['y']]:.3g}", (at, row[plot["y"]] + above), ha="center", va="bottom", fontsize=7.5,
                      xytext=(0, 1), textcoords="offset points")
    if plot.get("floor") and row.get(plot["floor"]) is not None:
        axes.plot([at - width / 2, at + width / 2], [row[plot["floor"]]] * 2, color="black", linewidth=1.6, zorder=4)


def lines(axes, rows, plot, panel):
    names = unique(r["series"] for r in rows)
    for number, name in enumerate(names):
        found = sorted((r for r in rows if r["series"] == name and r.get(plot["y"]) is not None), key=lambda r: r[plot["x"]])
        if not found:
            continue
        errors = list(zip(*(spread(r, plot["y"]) for r in found)))
        axes.errorbar([r[plot["x"]] for r in found], [r[plot["y"]] for r in found], yerr=errors, marker="o", markersize=4,
                      linewidth=1.6, capsize=2, elinewidth=0.9, color=colour(name, number), label=name,
                      linestyle="--" if hatch(name) else "-")
        for point in papers(plot, panel, series=name):
            diamond(axes, point["x"], point["y"], colour(name, number))
    ticks = unique(sorted(r[plot["x"]] for r in rows))
    if plot.get("log_x"):
        axes.set_xscale("log")
    if len(ticks) <= 8:
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()


def stacked(axes, rows, plot, panel):
    for number, row in enumerate(rows):
        bottom = 0
        for part in plot["parts"]:
            height = row.get(f"{part}{plot['suffix']}") or 0
            axes.bar(number, height, 0.65, bottom=bottom, color=PARTS[part], label=plot.get("part_labels", {}).get(part, part))
            bottom += height
        for point in papers(plot, panel, x=row[plot["x"]]):
            diamond(axes, number, point["y"], PARTS[point["part"]])
    axes.set_xticks(range(len(rows)), [str(r[plot["x"]]) for r in rows])


PANEL_TEXT = {"chunk_mib": "{} MiB chunks", "rate_mbit": "{} Mbit/s", "code": "{}", "links": "{}", "series": "{}",
              "servers": "{} servers", "disk": "{}"}


def draw_one(document, plot, path):
    rows = [r for r in document["rows"] if matches(r, plot.get("where", {}))
            and ("series" not in plot or r["series"] in plot["series"])]
    if not rows or not any(r.get(plot.get("y")) is not None for r in rows) and plot["layout"] != "stacked":
        return None
    panels = unique(tuple(r.get(k) for k in plot.get("panel", [])) for r in rows)
    columns = min(len(panels), plot.get("columns", 3))
    lines_of_panels = -(-len(panels) // columns)
    height = plot.get("height", 3.3 if lines_of_panels == 1 else 2.5 * lines_of_panels)
    figure, grid = plt.subplots(lines_of_panels, columns, figsize=(WIDTH_INCHES, height + 0.7), dpi=DPI, squeeze=False,
                                sharey=plot.get("share_y", True))
    for axes in grid.flat[len(panels):]:
        axes.axis("off")
    for axes, panel in zip(grid.flat, panels):
        draw_panel(axes, [r for r in rows if tuple(r.get(k) for k in plot.get("panel", [])) == panel], plot, panel)
        axes.set_title(", ".join(PANEL_TEXT.get(k, k + " {}").format(v) for k, v in zip(plot.get("panel", []), panel)),
                       fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_xlabel(plot.get("x_label", ""), fontsize=9)
    for line in grid:
        line[0].set_ylabel(plot["y_label"], fontsize=9)
    legend(figure, grid, plot)
    figure.suptitle(plot.get("title", document["title"]), fontsize=10.5, y=0.995)
    figure.tight_layout(rect=(0, 0.06 if height > 4 else 0.08, 1, 0.99))
    figure.savefig(path)
    plt.close(figure)
    return path


def legend(figure, grid, plot):
    entries = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    if plot.get("paper"):
        entries["the text's"] = Line2D([], [], marker="D", markerfacecolor="white", markeredgecolor="#222222", linestyle="none")
    if plot.get("floor"):
        entries["floor"] = Line2D([], [], color="black", linewidth=1.6)
    if entries:
        figure.legend(entries.values(), entries.keys(), loc="lower center", ncol=min(7, len(entries)), fontsize=8,
                      frameon=False)


def draw(path, directory):
    """All pictures of one JSON file; returns their paths."""
    document = json.loads(pathlib.Path(path).read_text())
    plot = document["settings"].get("plot") or {}
    if not plot or not document["rows"]:
        return []
    base = {k: v for k, v in plot.items() if k != "also"}
    drawn = []
    for one in [base, *({**base, **more} for more in plot.get("also", []))]:
        name = pathlib.Path(path).stem + (f"-{one['name']}" if one.get("name") else "")
        drawn.append(draw_one(document, one, pathlib.Path(directory) / f"{name}.png"))
    return [p for p in drawn if p]
