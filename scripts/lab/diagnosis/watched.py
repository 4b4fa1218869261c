"""The cluster of a campaign: it has a network of its own, every daemon is in a control group of its own, and its monitor keeps every second.

With a network of their own, what is done to packets meets nobody else on the machine, and nothing of it is left when the last process has ended.
Control groups tell whose socket a packet belongs to. Needs root, and control groups of the first version beside the second's at `unified`.
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from compare import Cluster  # noqa: E402
from faults import BUFFERS  # noqa: E402
from own_addresses import own_address  # noqa: E402
from surroundings import CGROUP, leave_group  # noqa: E402

NEW_NETWORK = 0x40000000
# Every second is kept: other methods are judged on the same snapshots.
SNAPSHOTS = 'snapshot_interval = "1s"\nsnapshot_bytes = "4GiB"\n'

def enter_own_network():
    """This process and those it starts see no other network. REQUIRES: no threads yet."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "a network of its own (root is needed)")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Watched(Cluster):
    def __init__(self, binaries, directory, settings="", snapshots=SNAPSHOTS, **shape):
        """`settings`: further ones of the monitor; `shape`: servers and policy."""
        super().__init__(binaries, directory, **shape)
        self.groups = {}
        config = self.directory / "etc" / "monitor.toml"
        config.write_text(config.read_text() + snapshots + settings)
        self.restart("monitor")
        document = json.loads((self.directory / "cluster.json").read_text())
        self.addresses = {"metaserver": document["metaserver"]}
        # At a port that is known here, since its name at the monitor is made of its address.
        address = own_address()
        self.repair_manager = f"repair manager {address}"
        config = self.directory / "etc" / "repair-manager-1.toml"
        config.write_text(config.read_text() + f'listen = "{address}"\n')
        self.restart("repair-manager-1")
        for number, server in enumerate(document["chunkservers"], start=1):
            self.addresses[f"chunkserver-{number}"] = server["listen"]
            config = self.directory / "etc" / f"chunkserver-{number}.toml"
            config.write_text(f'buffer_memory = "{BUFFERS}"\n' + config.read_text())
        # Started from inside of its group, so that all its sockets belong there. The metaserver last: the others look for it again.
        for name in [*(f"chunkserver-{number}" for number in range(1, self.servers + 1)), "metaserver"]:
            self.groups[name] = f"kintsugi-{os.getpid()}-{name}"
            self.restart(name)
        for line in (self.directory / "env").read_text().splitlines():
            words = line.removeprefix("export ").split("=", 1)
            if words[0] == "KINTSUGI_MONITOR":
                self.environment["KINTSUGI_MONITOR"] = words[1].strip("'\"")

    def restart(self, name):
        pid = self.pid(name)
        os.kill(pid, signal.SIGTERM)
        while pathlib.Path(f"/proc/{pid}").exists():
            time.sleep(0.1)
        enter = None
        if name in self.groups:
            group = CGROUP / "unified" / self.groups[name]
            group.mkdir(exist_ok=True)
            enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        subprocess.run([self.kintsugi, "cluster", "start", "--dir", self.directory], check=True, stdout=subprocess.DEVNULL, preexec_fn=enter)

    def stop(self):
        super().stop()
        for name in self.groups.values():
            leave_group(CGROUP / "unified" / name, CGROUP / "unified")

    def pid(self, name):
        return int((self.directory / "run" / f"{name}.pid").read_text().split()[0])

    def port(self, name):
        return int(self.addresses[name].rsplit(":", 1)[1])

    def output(self, *words, limit=8):
        return subprocess.run([self.kintsugi, *map(str, words)], env=self.environment, check=True, capture_output=True, text=True, timeout=limit).stdout

    def avoids(self, server):
        """The others go around this server, for it is slow."""
        try:
            servers = json.loads(self.output("server", "list", "--json", limit=4))["servers"]
        except (subprocess.SubprocessError, ValueError):
            return False
        return any(one["name"] == server and one["slow"] for one in servers)

    def verdicts(self):
        """Those that stand, the worst first; None: nobody answered in time."""
        try:
            out = subprocess.run([self.kintsugi, "diagnose", "--json"], env=self.environment, capture_output=True, text=True, timeout=4).stdout
            answer = json.loads(out)
        except (subprocess.SubprocessError, ValueError):
            return None
        return None if answer["reduced"] else answer["verdicts"]
