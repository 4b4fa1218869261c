#!/usr/bin/env python3
"""Writes the dashboards beside it: cluster.json, servers.json, disks.json, clients.json.

Import the files into Grafana (9 or later) as they are. Change the panels here and run this: tests hold that the files are what is said
here, and that every metric and label exists.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
WIDTH = 24  # of Grafana's grid
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"

# $servers of the dashboards: all chunkservers, or those that are chosen.
CHOSEN = 'cluster="$cluster", instance=~"$servers"'
OF_CLUSTER = 'cluster="$cluster"'
RATE = "[$__rate_interval]"


def rate(metric, labels=OF_CLUSTER):
    return f"rate({metric}{{{labels}}}{RATE})"


def quantile(share, modules, by="le"):
    """Seconds below which the share of all executions of these regions of code stay."""
    labels = f'{OF_CLUSTER}, module=~"{modules}"'
    return f"histogram_quantile({share}, sum by ({by}) ({rate('kintsugi_module_seconds_bucket', labels)}))"


# ---- panels

def target(expression, legend=None, table=False):
    made = {"datasource": {"type": "prometheus", "uid": "${datasource}"}, "expr": expression, "legendFormat": legend or "__auto"}
    return made | ({"instant": True, "format": "table"} if table else {})


def thresholds(*steps):
    """Colours by value: a colour, then (value, colour) pairs."""
    first, *others = steps
    return {"mode": "absolute", "steps": [{"color": first, "value": None}] + [{"color": c, "value": v} for v, c in others]}


def panel(kind, title, targets, width, height, help_text="", unit="short", steps=(GREEN,), mappings=None, **options):
    made = {
        "type": kind, "title": title, "description": help_text,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "targets": [dict(each, refId=chr(ord("A") + i)) for i, each in enumerate(targets)],
        "fieldConfig": {"defaults": {"unit": unit, "thresholds": thresholds(*steps)}, "overrides": []},
        "options": options,
        "gridPos": {"w": width, "h": height},
    }
    if mappings:
        made["fieldConfig"]["defaults"]["mappings"] = [
            {"type": "value", "options": {str(value): {"text": text, "color": color} for value, (text, color) in mappings.items()}}]
    if kind != "timeseries":
        made["fieldConfig"]["defaults"]["color"] = {"mode": "thresholds"}
    return made


def stat(title, expression, help_text, steps=(GREEN,), unit="short", mappings=None, width=4):
    return panel("stat", title, [target(expression)], width, 4, help_text, unit, steps, mappings,
                 colorMode="background", reduceOptions={"calcs": ["lastNotNull"]}, graphMode="none")


def plot(title, lines, help_text="", unit="short", width=12):
    """Lines over time: (expression, legend) pairs."""
    return panel("timeseries", title, [target(*line) for line in lines], width, 8, help_text, unit,
                 legend={"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"]},
                 tooltip={"mode": "multi", "sort": "desc"})


def states(title, expression, legend, mappings, help_text=""):
    """One bar for each series, coloured by its value."""
    return panel("state-timeline", title, [target(expression, legend)], WIDTH, 8, help_text, mappings=mappings,
                 showValue="never", mergeValues=True)


def table(title, expression, help_text="", width=WIDTH):
    return panel("table", title, [target(expression, table=True)], width, 8, help_text)


def row(title):
    return {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": {"w": WIDTH, "h": 1}}


# ---- the dashboards

def cluster():
    none_is_good = (GREEN, (1, RED))
    return [
        row("Is all data whole?"),
        stat("Unreadable", f"sum(kintsugi_stripes_unreadable{{{OF_CLUSTER}}})", "Stripes of which too few chunks are left. Start the servers that are dead.", none_is_good),
        stat("Without a spare", f"sum(kintsugi_stripes_without_spare{{{OF_CLUSTER}}})", "Stripes that the next loss makes unreadable.", none_is_good),
        stat("Degraded", f"sum(kintsugi_stripes_degraded{{{OF_CLUSTER}}})", "Stripes that lack a chunk. They can be read, and are repaired.", (GREEN, (1, YELLOW))),
        stat("Metaserver", f'min(up{{{OF_CLUSTER}, daemon="metaserver"}})', "Without it nothing can be stored or found.", (RED, (1, GREEN)),
             mappings={0: ("down", RED), 1: ("up", GREEN)}),
        stat("Repair managers", f"sum(kintsugi_repair_managers{{{OF_CLUSTER}}})", "Without one nothing is repaired.", (RED, (1, GREEN))),
        stat("Dead servers", f"sum(kintsugi_servers_dead{{{OF_CLUSTER}}})", "Chunkservers that have been silent for ten seconds.", none_is_good),
        table("Alerts", f'ALERTS{{{OF_CLUSTER}, alertname=~"Kintsugi.*", alertstate="firing"}}', "What is wrong now. The runbook of each is in docs/monitoring.md.", 12),
        table("Alarms of the monitor", f"kintsugi_alarm{{{OF_CLUSTER}}}", "Who holds others up, for how many seconds. kintsugi diagnose says more.", 12),
        plot("Stripes that are not whole", [(f"sum(kintsugi_stripes_degraded{{{OF_CLUSTER}}})", "degraded"), (f"sum(kintsugi_stripes_without_spare{{{OF_CLUSTER}}})", "without a spare"),
                                            (f"sum(kintsugi_stripes_unreadable{{{OF_CLUSTER}}})", "unreadable")]),
        plot("Chunkservers", [(f"sum(kintsugi_servers_alive{{{OF_CLUSTER}}})", "alive"), (f"sum(kintsugi_servers_dead{{{OF_CLUSTER}}})", "dead"),
                              (f"sum(kintsugi_servers_not_reported{{{OF_CLUSTER}}})", "have not told their chunks")]),
        row("Room"),
        stat("Used", f"1 - sum(kintsugi_chunkserver_free_bytes{{{OF_CLUSTER}}}) / sum(kintsugi_chunkserver_total_bytes{{{OF_CLUSTER}}})", "Of all disks that work.", (GREEN, (0.75, YELLOW), (0.85, RED)), "percentunit"),
        stat("Free", f"sum(kintsugi_chunkserver_free_bytes{{{OF_CLUSTER}}})", "Of all disks that work. Parity and copies take a part of it.", (BLUE,), "bytes"),
        stat("Chunks", f"sum(kintsugi_chunkserver_stored_bytes{{{OF_CLUSTER}}})", "Bytes of all chunks, with parity and copies.", (BLUE,), "bytes"),
        stat("Files", f"sum(kintsugi_files{{{OF_CLUSTER}}})", "In the namespace.", (BLUE,)),
        stat("Stripes", f"sum(kintsugi_stripes{{{OF_CLUSTER}}})", "Units of redundancy.", (BLUE,)),
        stat("Metaserver's disk", f"min(kintsugi_metaserver_disk_free_bytes{{{OF_CLUSTER}}})", "Free. Below 128 MiB nothing new can be stored.", (RED, (2e9, YELLOW), (1e10, GREEN)), "bytes"),
        plot("Room over time", [(f"sum(kintsugi_chunkserver_stored_bytes{{{OF_CLUSTER}}})", "chunks"), (f"sum(kintsugi_chunkserver_free_bytes{{{OF_CLUSTER}}})", "free"),
                                (f"sum(kintsugi_chunkserver_total_bytes{{{OF_CLUSTER}}})", "all")], unit="bytes", width=WIDTH),
        row("Throughput and latency"),
        plot("Bytes of users", [(f"sum({rate('kintsugi_chunkserver_read_bytes_total')})", "read"), (f"sum({rate('kintsugi_chunkserver_written_bytes_total')})", "written")],
             "Bytes of chunks: what is written includes parity and copies.", "Bps"),
        plot("Calls to chunkservers", [(f"sum by (call) ({rate('kintsugi_chunkserver_calls_total')})", "{{call}}"), (f"sum({rate('kintsugi_chunkserver_failed_calls_total')})", "failed")], unit="ops"),
        plot("Latency of chunks", [(quantile(0.5, "serve.ReadChunk"), "read, median"), (quantile(0.99, "serve.ReadChunk"), "read, 99 %"),
                                   (quantile(0.5, "serve.WriteChunk"), "write, median"), (quantile(0.99, "serve.WriteChunk"), "write, 99 %")],
             "From the request to its end; a write is synced before it ends.", "s"),
        plot("Latency of the metaserver", [(quantile(0.5, "serve.(Stat|OpenRead)"), "find, median"), (quantile(0.99, "serve.(Stat|OpenRead)"), "find, 99 %"),
                                           (quantile(0.5, "serve.CommitFile"), "store, median"), (quantile(0.99, "serve.CommitFile"), "store, 99 %")], unit="s"),
        row("Repairs"),
        plot("Repairs", [(f"sum(kintsugi_repairs_queued{{{OF_CLUSTER}}})", "queued"), (f"sum(kintsugi_repairs_running{{{OF_CLUSTER}}})", "running"),
                         (f"sum(kintsugi_repairs_delayed{{{OF_CLUSTER}}})", "delayed: the server may return"), (f"sum(kintsugi_chunks_unrepairable{{{OF_CLUSTER}}})", "too few chunks left")]),
        plot("Bytes repaired", [(f"sum({rate('kintsugi_repaired_bytes_total')})", "repaired"), (f"sum({rate('kintsugi_compacted_bytes_total')})", "compacted")], unit="Bps"),
        plot("Repairs that ended", [(f"sum({rate('kintsugi_repairs_done_total')})", "done"), (f"sum({rate('kintsugi_repairs_failed_total')})", "failed, tried again")], unit="ops"),
        plot("Files to compact", [(f"sum(kintsugi_files_to_compact{{{OF_CLUSTER}}})", "not taken yet"), (f"sum(kintsugi_compactions_waiting{{{OF_CLUSTER}}})", "waiting")]),
    ]


def servers():
    of_users = CHOSEN + ', reader="user"'
    blocks = f"sum by (instance) ({rate('kintsugi_chunkserver_cache_blocks_total', of_users)})"
    hits = blocks.replace(of_users, of_users + ', outcome="hit"')
    return [
        row("Daemons"),
        states("Answers", f"up{{{CHOSEN}}}", "{{instance}}", {0: ("down", RED), 1: ("up", GREEN)}, "Whether Prometheus reaches its page of metrics."),
        table("Names and numbers", f"kintsugi_server_info{{{OF_CLUSTER}}}", "The number is that of kintsugi server list."),
        table("Programs", f"kintsugi_build_info{{{OF_CLUSTER}}}", "What each daemon was built from. They differ during an upgrade."),
        row("Data"),
        plot("Share that is used", [(f"1 - kintsugi_chunkserver_free_bytes{{{CHOSEN}}} / kintsugi_chunkserver_total_bytes{{{CHOSEN}}}", "{{instance}}")], unit="percentunit"),
        plot("Chunks", [(f"kintsugi_chunkserver_chunks{{{CHOSEN}}}", "{{instance}}")]),
        plot("Bytes read by users", [(rate("kintsugi_chunkserver_read_bytes_total", CHOSEN), "{{instance}}")], unit="Bps"),
        plot("Bytes written by users", [(rate("kintsugi_chunkserver_written_bytes_total", CHOSEN), "{{instance}}")], unit="Bps"),
        plot("Calls that failed", [(rate("kintsugi_chunkserver_failed_calls_total", CHOSEN), "{{instance}}")], unit="ops"),
        plot("Damaged chunks found", [(f"increase(kintsugi_chunkserver_corrupt_chunks_total{{{CHOSEN}}}{RATE})", "{{instance}}")]),
        row("Network and repairs"),
        plot("Link, sent", [(rate("kintsugi_chunkserver_link_bytes_total", CHOSEN + ', direction="up"'), "{{instance}}")], "All traffic of the server.", "Bps"),
        plot("Link, received", [(rate("kintsugi_chunkserver_link_bytes_total", CHOSEN + ', direction="down"'), "{{instance}}")], "All traffic of the server.", "Bps"),
        plot("Link, what it can send", [(f'kintsugi_chunkserver_link_bytes_per_second{{{CHOSEN}, direction="up"}}', "{{instance}}")], "As measured, or as set.", "Bps"),
        plot("Repairs that it helps in", [(f"kintsugi_chunkserver_repairs_running{{{CHOSEN}}}", "{{instance}}")]),
        plot("Repairs wait for users", [(rate("kintsugi_pacer_wait_seconds_total", CHOSEN), "{{instance}}")], "Seconds of waiting a second, over all repairs.", "short"),
        plot("Connections", [(f"kintsugi_rpc_connections{{{CHOSEN}}}", "{{instance}}, opened by {{side}}")]),
        row("Processes"),
        plot("Processor", [(rate("process_cpu_seconds_total", CHOSEN), "{{instance}}")], "Processors in use.", "short"),
        plot("Memory", [(f"process_resident_memory_bytes{{{CHOSEN}}}", "{{instance}}")], unit="bytes"),
        plot("Open descriptors", [(f"process_open_fds{{{CHOSEN}}}", "{{instance}}")]),
        plot("Event loop comes late by", [(f"kintsugi_loop_lag_seconds{{{CHOSEN}}}", "{{instance}}")], unit="s"),
        plot("Turns above 20 ms", [(f"sum by (instance, ran) (increase(kintsugi_loop_long_turns_total{{{CHOSEN}}}{RATE}))", "{{instance}}: {{ran}}")],
             "The region of code that took most of each. All other requests wait meanwhile."),
        plot("Clock beside the metaserver's", [(f"kintsugi_chunkserver_clock_difference_seconds{{{CHOSEN}}}", "{{instance}}")], unit="s"),
        plot("Cache, share of hits of users", [(f"{hits} / {blocks}", "{{instance}}")], unit="percentunit"),
        plot("Cache, memory", [(f"kintsugi_chunkserver_cache_memory_bytes{{{CHOSEN}}}", "{{instance}}")], unit="bytes"),
    ]


def disks():
    health = {0: ("well", GREEN), 1: ("slow", YELLOW), 2: ("hung", RED), 3: ("read-only", "orange"), 4: ("failed", "dark-red")}
    name = "{{instance}} {{disk}}"
    return [
        row("Health"),
        stat("Failed", f"sum(kintsugi_chunkserver_failed_disks{{{OF_CLUSTER}}})", "Disks that were dropped. Their chunks are repaired elsewhere.", (GREEN, (1, RED))),
        stat("Not well", f"count(kintsugi_disk_health{{{OF_CLUSTER}}} > 0) or vector(0)", "Slow, hung, read-only or failed.", (GREEN, (1, YELLOW))),
        stat("Disks", f"count(kintsugi_disk_health{{{OF_CLUSTER}}})", "", (BLUE,)),
        states("Health of each disk", f"kintsugi_disk_health{{{CHOSEN}}}", name, health, "Runbooks: sick_disk, dead_disk."),
        row("Load"),
        plot("Busy", [(rate("kintsugi_disk_busy_seconds_total", CHOSEN), name)], "Share of the time in which a call was under way.", "percentunit"),
        plot("Calls under way", [(f"kintsugi_disk_inflight{{{CHOSEN}}}", name)]),
        plot("Age of the oldest call", [(f"kintsugi_disk_oldest_call_seconds{{{CHOSEN}}}", name)], "From 2 s on the disk counts as slow, from 10 s on as hung.", "s"),
        plot("Chunks", [(f"kintsugi_disk_chunks{{{CHOSEN}}}", name)]),
        row("Errors"),
        plot("Errors of calls", [(f"increase(kintsugi_disk_errors_total{{{CHOSEN}}}{RATE})", name + ", {{call}}")]),
        plot("Damaged files that are kept", [(f"kintsugi_disk_quarantined_files{{{CHOSEN}}}", name)], "In quarantine/ on the disk, for people to look at."),
    ]


def clients():
    programs = f'{OF_CLUSTER}, kind!~"metaserver|chunkserver|repair-manager|monitor"'
    requests = f'{OF_CLUSTER}, daemon="metaserver", module=~"serve[.].*"'
    awaited = f'{OF_CLUSTER}, operation!="wait_for_lock"'
    return [
        row("Mounts and programs"),
        plot("Processes that report", [(f"count by (kind) (kintsugi_process_silent_seconds{{{OF_CLUSTER}}})", "{{kind}}")],
             "Mounts, and programs that run for longer than a second."),
        plot("Silent for", [(f"kintsugi_process_silent_seconds{{{programs}}}", "{{name}}")], "Each reports once a second. A mount that is silent for long hangs or is gone.", "s"),
        plot("Event loop blocked for", [(f"kintsugi_process_loop_stalled_seconds{{{programs}}}", "{{name}}")], unit="s"),
        plot("Open operations and waits", [(f"kintsugi_process_open_regions{{{programs}}}", "{{name}}")]),
        table("Alarms on clients", f'kintsugi_alarm{{{OF_CLUSTER}, kind="client"}}', "Applications that do not read or write what they asked for."),
        row("What mounts do for applications"),
        plot("Operations of mounts", [(f"topk(10, sum by (host, mount) ({rate('kintsugi_mount_requests_total')}))", "{{host}} {{mount}}")],
             "Requests of the kernels that have ended.", "ops"),
        plot("Mean time of operations",
             [(f"sum by (operation) ({rate('kintsugi_mount_request_seconds_total', awaited)}) / sum by (operation) ({rate('kintsugi_mount_requests_total', awaited)})",
               "{{operation}}")], "Of all mounts, without waits for locks that other applications have.", "s"),
        plot("Bytes of applications", [(f"sum({rate('kintsugi_mount_read_bytes_total')})", "read"), (f"sum({rate('kintsugi_mount_fetched_bytes_total')})", "read, and not in memory"),
                                       (f"sum({rate('kintsugi_mount_written_bytes_total')})", "written")], unit="Bps"),
        plot("Not written out yet", [(f"topk(10, kintsugi_mount_dirty_bytes{{{OF_CLUSTER}}})", "{{host}} {{mount}}")], unit="bytes"),
        row("What they ask of the metaserver"),
        plot("Requests", [(f"topk(10, sum by (module) ({rate('kintsugi_module_seconds_count', requests)}))", "{{module}}")], unit="ops"),
        plot("Requests under way", [(f"topk(10, sum by (module) ({rate('kintsugi_module_seconds_sum', requests)}))", "{{module}}")],
             "On average."),
        plot("Requests that failed", [(f"topk(10, sum by (module) ({rate('kintsugi_module_errors_total', requests)}))", "{{module}}")],
             "With an error of any kind, also \"no such file\".", "ops"),
        plot("99 % of requests end within", [(f"topk(10, {quantile(0.99, 'serve[.].*', 'module, le')})", "{{module}}")], unit="s"),
        row("What they move"),
        plot("Bytes", [(f"sum({rate('kintsugi_chunkserver_read_bytes_total')})", "read"), (f"sum({rate('kintsugi_chunkserver_written_bytes_total')})", "written")], unit="Bps"),
        plot("Connections", [(f"sum by (daemon, instance) (kintsugi_rpc_connections{{{OF_CLUSTER}, side=\"server\"}})", "{{instance}}")], "That others have opened to the daemon."),
    ]


# ---- files

def placed(panels):
    """Gives every panel its place, left to right and top to bottom, and a number."""
    x = y = height = 0
    for number, each in enumerate(panels, 1):
        place = each["gridPos"]
        if x + place["w"] > WIDTH:
            x, y, height = 0, y + height, 0
        each["id"] = number
        place.update(x=x, y=y)
        x, height = x + place["w"], max(height, place["h"])
    return panels


def variable(name, label, query, **options):
    return {"type": "query", "name": name, "label": label, "query": query, "definition": query, "refresh": 2, "sort": 1,
            "datasource": {"type": "prometheus", "uid": "${datasource}"}} | options


def dashboard(name, title, panels, chooses_servers):
    variables = [{"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"},
                 variable("cluster", "Cluster", 'label_values(up{job="kintsugi"}, cluster)')]
    if chooses_servers:
        variables.append(variable("servers", "Daemons", f'label_values(up{{job="kintsugi", {OF_CLUSTER}}}, instance)',
                                  multi=True, includeAll=True, allValue=".*", current={"text": "All", "value": "$__all"}))
    return {
        "uid": f"kintsugi-{name}", "title": f"Kintsugi: {title}", "tags": ["kintsugi"], "schemaVersion": 37, "editable": True,
        "time": {"from": "now-6h", "to": "now"}, "refresh": "30s", "timezone": "utc",
        "templating": {"list": variables},
        "links": [{"type": "dashboards", "title": "Kintsugi", "tags": ["kintsugi"], "asDropdown": False, "includeVars": True, "keepTime": True}],
        "panels": placed(panels),
    }


def dashboards():
    return {"cluster": dashboard("cluster", "cluster", cluster(), False),
            "servers": dashboard("servers", "servers", servers(), True),
            "disks": dashboard("disks", "disks", disks(), True),
            "clients": dashboard("clients", "clients and mounts", clients(), False)}


def main():
    for name, made in dashboards().items():
        (HERE / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
