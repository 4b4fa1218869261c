"""In how far what servers do for concurrent commands is told apart: gets and puts of 1.5 MB at a time, each recorded, and all servers.

Which frame belongs to which command is known from the connection: each command has its own. A frame between a command and a server is in the right flow when
both of its ends are in the command's flow, the largest of the command's process. Calls by which recordings are begun and ended are left out, as `explain` does.
"""

import collections
import json
import pathlib
import shutil
import subprocess
import tempfile
import time

from recorded import RecordedCluster, Recording
from watched import enter_own_network

SIZE = 1_500_000
ROUNDS = [("get", 8), ("get", 16), ("put", 8), ("put", 16)]
SERVERS, POLICY = 6, "rs-3-2-64k"


def judge(document):
    """Of an export for Perfetto: frames, those in the right flow, commands whose frames are all in a flow of their own, and events of servers in each command's flow."""
    names, methods, ends, events = {}, {}, collections.defaultdict(dict), collections.defaultdict(collections.Counter)
    for event in document["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
        elif event["ph"] in ("s", "f"):
            ends[event["id"]][event["ph"]] = (event["pid"], event["args"]["flow"])
            methods[event["id"]] = event["name"]
        if event["ph"] in ("B", "s", "f"):
            events[event["pid"]][event["args"]["flow"]] += 1
    commands = {pid for pid, name in names.items() if name.startswith("kintsugi ")}
    main = {pid: events[pid].most_common(1)[0][0] for pid in commands if events[pid]}
    frames, right, strays, wrong = 0, 0, collections.Counter(), collections.Counter()
    for number, end in ends.items():
        ours = [pid for pid, _flow in end.values() if pid in commands]
        if len(end) < 2 or not ours or methods[number].split(" ")[0] == "Trace":
            continue
        frames += 1
        is_right = all(flow == main[ours[0]] for _pid, flow in end.values())
        right += is_right
        if not is_right:
            strays[ours[0]] += 1
            wrong[methods[number]] += 1
    owned = [sum(counts[flow] for pid, counts in events.items() if pid not in commands) for flow in main.values()]
    return {"frames": frames, "right": right, "commands": len(commands), "in_one_flow": sum(strays[pid] == 0 for pid in commands),
            "wrong": dict(wrong), "flows": len(set(main.values())), "events_of_servers": sorted(owned)}


def run_round(arguments, cluster, work, what, count):
    recording = Recording(cluster, work / "servers", ["metaserver", *cluster.names])
    recording.begin()
    words = [["get", f"/kept-{number}", work / f"got-{number}"] if what == "get" else ["put", work / "source", f"/put-{count}-{number}"] for number in range(count)]
    running = [cluster.begin(*words[number], "--trace", work / f"command-{number}", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for number in range(count)]
    failed = sum(one.wait() != 0 for one in running)
    files = recording.end() + [str(work / f"command-{number}" / "trace") for number in range(count)]
    files = [file for file in files if pathlib.Path(file).exists()]
    subprocess.run([cluster.kintsugi, "trace", "export", *files, "--binary", cluster.binaries, "--out", work / "export.json"], check=True)
    return {"what": what, "at_a_time": count, "failed": failed, "files": len(files), **judge(json.loads((work / "export.json").read_text()))}


def measure(arguments):
    enter_own_network()
    arguments.dir.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="at-once-", dir=arguments.dir)).resolve()
    cluster = RecordedCluster(arguments.bin.resolve(), work / "cluster", servers=SERVERS, policy=POLICY)
    try:
        (work / "source").write_bytes(bytes(range(250)) * (SIZE // 250))
        for number in range(16):
            cluster.run("put", work / "source", f"/kept-{number}")
        for what, count in ROUNDS:
            place = work / f"{what}-{count}"
            place.mkdir()
            shutil.copy(work / "source", place / "source")
            found = run_round(arguments, cluster, place, what, count)
            with open(arguments.journal, "a", encoding="utf-8") as journal:
                journal.write(json.dumps({"line": "at-once", "unix": time.time(), **found}) + "\n")
            events = found["events_of_servers"]
            print(f"| {count} {what}s | {found['frames']} | {100 * found['right'] / max(1, found['frames']):.1f} % | {found['in_one_flow']} of {found['commands']} | "
                  f"{events[0]:,} to {events[-1]:,} |", flush=True)
    finally:
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)
