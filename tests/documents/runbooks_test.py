#!/usr/bin/env python3
"""The commands of docs/runbooks are run on clusters that are broken as the runbooks say, and show what the runbooks say.

    runbooks_test.py BIN [SCENARIO...]

BIN has the programs, with fault points. Blocks that run on a healthy cluster are run by processes_test (Of/Page); this program runs
those whose line before says "not run: tests/documents/runbooks_test.py ...", and the commands within sentences. Without a
SCENARIO it also fails when a runbook has a command that is neither run nor excused (EXCUSED).
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from runbook_rig import BY_ANOTHER, HERE, NOT_AT_ALL, PAGES, PATIENCE_SECONDS, ROOT, Cluster, Failed, expect, wait_for  # noqa: E402

# Commands that no test can run, and why. Those of systemd are held against deploy/systemd.
EXCUSED = {
    "dmesg": "shows the kernel's log, which has no fault of a test in it",
    "smartctl -a": "needs a real disk",
    "systemctl status kintsugi-chunkserver@1": "needs systemd",
    "journalctl -u kintsugi-chunkserver@1": "needs systemd",
}


# ---- scenarios: each breaks a cluster of its own

def asks_a_healthy_cluster(cluster):
    """The commands with which runbooks begin, and those of repairs."""
    index, repairs, daemons, full = (PAGES[name] for name in ("README", "repairs", "daemons", "full_cluster"))
    cluster.put("/file")
    for page, command in ((index, "kintsugi diagnose"), (index, "kintsugi server list"), (daemons, "kintsugi diagnose"),
                          (daemons, "kintsugi server list"), (full, "kintsugi server list"), (full, "kintsugi diagnose"),
                          (repairs, "kintsugi server list"), (repairs, "kintsugi df"), (repairs, "kintsugi fsck"),
                          (repairs, "kintsugi repair history"), (repairs, "kintsugi diagnose")):
        cluster.run(page.command(command), fails=None if command == "kintsugi diagnose" else False)
    expect("IUse%" in cluster.run(full.command("df -i DIRECTORY"), replace=[("DIRECTORY", cluster.directory / "data/chunkserver-1")]), "df -i")
    for page in (daemons, repairs):
        json.loads(cluster.run(page.command("kintsugi diagnose --json") + " 2>/dev/null", fails=None))
    said = cluster.run(index.command("kintsugi diagnose --metrics"), fails=None)
    expect("rror" not in said, said)
    doctor = index.command("kintsugi doctor")
    said = cluster.run(f"{doctor} --etc {cluster.directory}/etc --out {cluster.directory}/help.tar.gz", fails=None)
    expect("help.tar.gz" in said, said)
    page = cluster.run(daemons.block("A daemon does not answer", "curl"),
                       replace=[("127.0.0.1:9801", cluster.http_of("chunkserver-1"))])
    expect("ok" in page, page)
    # Its first advice: no repair manager runs.
    status = repairs.command("kintsugi repair status")
    cluster.run(status)
    cluster.stop_daemon("repair-manager-1", signal.SIGKILL)
    cluster.wait_until(status, "none is registered|no repair manager")
    cluster.run(status, fails=True)
    cluster.start()
    wait_for("a repair manager", lambda: "none is registered" not in cluster.run(status, fails=None))


def loses_disks_and_servers(cluster):
    """dead_disk: a disk that goes away, a second daemon on a directory, a drain, a dead server that is forgotten, a copied disk."""
    page = PAGES["dead_disk"]
    server = "chunkserver-3"
    disk = cluster.directory / f"data/{server}-b"
    disk.mkdir()
    cluster.stop_daemon(server)
    settings = cluster.directory / f"etc/{server}.toml"
    settings.write_text(re.sub(r'disks = \["(.*)"\]', rf'disks = ["\1", "{disk}"]', settings.read_text()))
    cluster.start()
    for number in range(12):
        cluster.put(f"/file{number}")

    second = cluster.begin(cluster.binaries / "kintsugi-chunkserver", "--config", settings, "--log-file", "",
                           "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
    said = second.communicate(timeout=PATIENCE_SECONDS)[0]
    expect("is in use by another process" in said and page.says("is in use by another process"), said)
    holder = page.command("fuser -v DIRECTORY/lock")
    if shutil.which("fuser"):
        expect(str(cluster.pid(server)) in cluster.run(holder, replace=[("DIRECTORY", disk)]), "fuser does not name the daemon")

    moved = disk.rename(cluster.directory / "data/moved")
    listed = page.command("kintsugi server list")
    cluster.wait_until(listed, "alive, 1 of 2 disks failed")
    page.says("alive, 1 of 4 disks failed")
    expect(f"disk {disk} is dropped:" in cluster.log_of(server) and page.says("is dropped:"), "the log of the server")
    expect(re.search(r"^kintsugi_chunkserver_failed_disks 1$", cluster.metrics_of(server), re.M), "kintsugi_chunkserver_failed_disks")
    page.says("kintsugi_chunkserver_failed_disks")
    page.says("all whole")
    cluster.wait_until("kintsugi fsck", "all whole")
    cluster.run(page.command("kintsugi fsck --deep"))
    page.says("Put it back at its path")
    moved.rename(disk)
    cluster.stop_daemon(server)
    cluster.start()
    wait_for("the disk counts again", lambda: (known := cluster.server(server))["failed_disks"] == 0 and known["liveness"] == "alive")

    drain, undrain = page.block("A disk reports errors but still works (SMART, kernel log)", "kintsugi server drain").splitlines()
    cluster.run(drain, replace=[("blue-3", server)])
    cluster.wait_until(listed, "drained")
    cluster.run(undrain, replace=[("blue-3", server)])
    expect("drain" not in cluster.run(listed), "the drain was not taken back")

    remove = page.block("Replace the disk", "kintsugi server remove 3")
    cluster.run(remove, fails=True)
    cluster.stop_daemon(server, signal.SIGKILL)
    cluster.wait_until(listed, "dead")
    cluster.wait_until("kintsugi fsck", "all whole")
    wait_for("the dead server is forgotten", lambda: "dead" not in cluster.run(remove, fails=None) and server not in cluster.run(listed))

    copied = cluster.directory / "data/copied"
    shutil.copytree(cluster.directory / "data/chunkserver-4", copied)
    pid = cluster.pid("chunkserver-4")
    copy = re.sub(r'disks = .*', f'disks = ["{copied}"]', (cluster.directory / "etc/chunkserver-4.toml").read_text())
    copy = re.sub(r'(listen = "127.0.0.1:)\d+', r'\g<1>0', copy).replace("chunkserver-4.log", "copied.log")
    (cluster.directory / "etc/copied.toml").write_text(copy)
    cluster.begin(cluster.binaries / "kintsugi-chunkserver", "--config", cluster.directory / "etc/copied.toml")
    wait_for("the one that came first ends", lambda: not cluster.runs(pid))
    told = cluster.log_of("chunkserver-4")
    expect(page.says("another process has registered as server") in told, told[-500:])


def has_a_sick_disk(cluster):
    """sick_disk: a disk that hangs, chunks that cannot be read, a drain."""
    page = PAGES["sick_disk"]
    server = "chunkserver-2"
    for number in range(4):
        cluster.put(f"/file{number}")
    cluster.run(f"kintsugi fault set {server} disk-read hang --times 1")
    cluster.run("for i in 0 1 2 3; do kintsugi get --replace /file$i back; done")
    cluster.run("timeout 5 kintsugi fsck --deep", fails=None)
    said = cluster.wait_until(page.command("kintsugi server list"), r"\bhung\b")
    expect(re.search(r"disk \S+: hung \(\d+ chunks?\): a call has not returned for \d+ s", said), said)
    page.says("hung (5120 chunks): a call has not returned for 34 s")
    expect(re.search(r"^kintsugi_disk_health\{.*\} 2$", cluster.metrics_of(server), re.M), "kintsugi_disk_health")
    cluster.run("kintsugi fault clear " + server)
    wait_for("the disk is well again", lambda: "hung" not in cluster.run("kintsugi server list"))
    cluster.run(page.command("kintsugi fsck --deep"))
    cluster.run(page.command("kintsugi server drain SERVER"), replace=[("SERVER", server)])
    cluster.wait_until("kintsugi server list", "drained")


def restores_older_metadata(cluster):
    """restored_metadata: an older copy serves, the newer one comes back, and the older one is accepted."""
    page = PAGES["restored_metadata"]
    meta, older, newer = (cluster.directory / "data" / name for name in ("meta", "older", "newer"))

    def use(copy):
        cluster.stop_daemon("metaserver")
        shutil.rmtree(meta)
        shutil.copytree(copy, meta)
        cluster.start()

    cluster.put("/old")
    cluster.stop_daemon("metaserver")
    shutil.copytree(meta, older)
    cluster.start()
    time.sleep(12)  # chunkservers learn where the metadata stands once the metaserver has run for a while
    cluster.put("/new")
    cluster.stop_daemon("metaserver")
    shutil.copytree(meta, newer)
    cluster.start()

    use(older)
    status = page.command("kintsugi metadata status")
    cluster.wait_until(status, "IN DOUBT")
    cluster.run(status, fails=True)
    cluster.run(page.command("kintsugi fsck"), fails=True)
    told = cluster.log_of("metaserver")
    expect(page.says("the metadata is older than chunks of this cluster") in told, told[-500:])
    expect(re.search(r"^kintsugi_metadata_in_doubt 1$", cluster.metrics_of("metaserver"), re.M), "kintsugi_metadata_in_doubt")
    page.says("kintsugi_metadata_in_doubt")
    cluster.run("kintsugi stat /old")

    use(newer)
    cluster.wait_until("kintsugi fsck", "all whole")
    cluster.run(page.block("If newer metadata exists", "kintsugi metadata status"))
    cluster.run("kintsugi stat /new")

    use(older)
    cluster.wait_until(status, "IN DOUBT")
    cluster.run(page.block("If newer metadata is gone for good", "kintsugi metadata accept"))
    cluster.run(status)
    cluster.run(page.command("kintsugi quarantine keep"))
    cluster.run(page.command("kintsugi quarantine empty"))
    cluster.run("kintsugi stat /old")


def damages_the_metadata_store(cluster):
    """metadata_store: a damaged log is cut off, a cut-off record costs nothing, a damaged table is put back."""
    page = PAGES["metadata_store"]
    meta = cluster.directory / "data/meta"

    def newest(pattern):
        return max((file for file in meta.glob(pattern) if file.stat().st_size), key=lambda file: file.name)

    def flip(file, at):
        with open(file, "r+b") as opened:
            opened.seek(at)
            byte = opened.read(1)[0]
            opened.seek(at)
            opened.write(bytes([byte ^ 0x40]))

    for number in range(6):
        cluster.put(f"/file{number}")
    cluster.stop_daemon("metaserver", signal.SIGKILL)
    cluster.run(page.block("", "cp -a /srv/kintsugi/meta "), replace=[("/srv/kintsugi/meta", meta)])
    expect((cluster.directory / "data/meta.before/CURRENT").exists(), "the copy is not there")

    log = newest("*.log")
    flip(log, log.stat().st_size // 2)
    cluster.start(fails=True)
    told = cluster.log_of("metaserver")
    advice = re.search(rf"is damaged from byte (\d+) on, and .*\(truncate -s (\d+) {re.escape(str(log))}\)", told)
    expect(advice and advice[1] == advice[2], told[-1000:])
    page.says("is damaged from byte 48213 on")
    cluster.run(page.block("A damaged log", "truncate -s 48213"), replace=[("48213", advice[1]), ("/srv/kintsugi/meta/000012.log", log)])
    cluster.start()
    cluster.wait_until("kintsugi server list", "alive")
    cluster.run(page.command("kintsugi metadata status"), fails=None)  # chunks may be newer than what is left
    cluster.run(page.block("A damaged log", "kintsugi metadata status").partition("\n")[2].partition("kintsugi fsck")[0])
    cluster.run("kintsugi metadata accept", fails=None)
    cluster.wait_until("kintsugi metadata status", "(?s)^(?!.*IN DOUBT)")
    cluster.run(page.block("A damaged log", "kintsugi metadata status"))

    cluster.run("kintsugi mkdir /cut")
    cluster.stop_daemon("metaserver", signal.SIGKILL)
    log = newest("*.log")
    with open(log, "ab") as opened:
        opened.write(b"\x17" * 40)
    before = len(cluster.log_of("metaserver"))
    cluster.start()
    cluster.run("kintsugi stat /cut")
    expect("the last record is incomplete or broken" in cluster.log_of("metaserver")[before:], cluster.log_of("metaserver")[before:])
    page.says("the last record is incomplete or broken")

    cluster.stop_daemon("metaserver", signal.SIGKILL)
    table = newest("*.sst")
    backup = cluster.directory / "backup"
    shutil.copytree(meta, backup)
    flip(table, table.stat().st_size // 10)
    before = len(cluster.log_of("metaserver"))
    cluster.start(fails=None)
    for number in range(6):
        cluster.run(f"timeout 20 kintsugi stat /file{number}", fails=None)
    told = cluster.log_of("metaserver")[before:]
    expect("block checksum mismatch" in told and page.says("block checksum mismatch"), told[-1000:])
    with contextlib.suppress(OSError):
        os.kill(cluster.pid("metaserver"), signal.SIGKILL)
    wait_for("the metaserver ends", lambda: not cluster.runs(cluster.pid("metaserver")))
    cluster.run(page.block("A damaged table", "cp -a /backup/meta/000044.sst"),
                replace=[("/backup/meta/000044.sst", backup / table.name), ("/srv/kintsugi/meta/000044.sst", table)])
    cluster.start()
    cluster.wait_until("kintsugi server list", "alive")

    repair = page.block("A damaged table", "ldb repair")
    if shutil.which("ldb"):
        cluster.stop_daemon("metaserver")
        cluster.run(repair, replace=[("/srv/kintsugi/meta", meta)])
        cluster.start()
    cluster.wait_until("kintsugi fsck /", "all whole")
    cluster.run(page.block("A damaged table", "kintsugi metadata status"))


SCENARIOS = {scenario.__name__: (scenario, servers) for scenario, servers in (
    (asks_a_healthy_cluster, 4), (loses_disks_and_servers, 5), (has_a_sick_disk, 4), (restores_older_metadata, 4),
    (damages_the_metadata_store, 4))}


# ---- what nobody ran

def not_run():
    units = {path.name.partition(".")[0] for path in (ROOT / "deploy/systemd").glob("*.service")}
    for page in PAGES.values():
        for heading, script, run in page.blocks:
            if run == NOT_AT_ALL:
                yield f"{page.name}: nobody runs the block below '{heading}': add it to a scenario of this test: {script}"
            if run == HERE and script not in page.taken:
                yield f"{page.name}: no scenario runs the block below '{heading}': {script}"
        for command in sorted(page.sentences - page.taken):
            # What is run for another runbook, or in a block; there a command that stands without its arguments has them.
            elsewhere = any(command in other.taken or re.search(rf"^{re.escape(command)}( |$)", script, re.M)
                            for other in PAGES.values() for _, script, _ in [("", "", BY_ANOTHER), *other.blocks])
            unit = re.search(r"\bkintsugi-[a-z-]+@", command)
            if unit and unit[0] not in units:
                yield f"{page.name}: `{command}`: deploy/systemd has no such unit"
            elif command not in EXCUSED and not elsewhere:
                yield f"{page.name}: no scenario runs `{command}`"
    for command in EXCUSED:
        if not any(command in page.sentences for page in PAGES.values()):
            yield f"`{command}` is excused, and no runbook has it"


def main():
    binaries, chosen = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    faults = []
    for name in chosen or SCENARIOS:
        scenario, servers = SCENARIOS[name]
        with tempfile.TemporaryDirectory(prefix="kintsugi-runbooks-", ignore_cleanup_errors=True) as directory:
            began = time.monotonic()
            try:
                with Cluster(binaries, pathlib.Path(directory) / "cluster", servers) as cluster:
                    scenario(cluster)
            except (Failed, subprocess.TimeoutExpired, OSError, ValueError) as error:
                faults.append(f"{name}: {error}")
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    faults += [] if chosen else not_run()
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
