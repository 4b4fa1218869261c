"""A Kintsugi cluster on the hosts of a lab network: host 1 is the metaserver, 2 the client, the rest chunkservers."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

from disks import make_disk, remove_disk
from network import LabError

META, CLIENT, FIRST_CHUNKSERVER = 1, 2, 3
MIB = 1 << 20
UP_SECONDS = 60
# Of hosts.toml.
ROLES = {META: 'roles = ["metaserver"]\n', CLIENT: ""}
STORE = 'disks = ["/disk"]\n'


def server_host(number):
    return FIRST_CHUNKSERVER + number


DAEMONS = ("kintsugi-metaserver", "kintsugi-chunkserver", "kintsugi-repair-manager")


def check_binaries(binaries, names=("kintsugi", *DAEMONS)):
    for name in names:
        if not os.access(pathlib.Path(binaries) / name, os.X_OK):
            raise LabError(f"{pathlib.Path(binaries) / name} is missing: run scripts/build.sh release all benchmarks, or say --binaries DIR")


def settings_of(binaries, daemon):
    """The settings a daemon knows, as it says itself."""
    text = subprocess.run([str(pathlib.Path(binaries) / daemon), "--help"], capture_output=True, text=True).stdout
    return set(re.findall(r"^\s+--([a-z0-9-]+)", text, re.M))


class Cluster:
    """`settings`: additional keys for the daemons, {"metaserver": {...}, "chunkserver": {...}, "repair-manager": {...}}. `ports`: the first of two
    that every daemon listens on, so that clusters can share hosts. `link_rates`: host -> (up, down) in bytes per second,
    told to chunkservers at their start where the daemon has settings for that. `racks`: the servers stand in so many, in turn; None: each in
    one of its own. `tls`: whether all connections are encrypted."""

    def __init__(self, network, binaries, directory, chunkservers, settings=None, ports=7400, link_rates=None, racks=None, tls=False):
        self.network = network
        self.binaries = pathlib.Path(binaries)
        self.directory = pathlib.Path(directory)
        self.chunkservers = chunkservers
        self.settings = settings or {}
        self.port = ports
        self.link_rates = link_rates or {}
        self.racks = racks or chunkservers
        self.tls = tls
        self.keys = None
        self.processes = {}
        self.known = {name: settings_of(binaries, name) for name in DAEMONS}

    def __enter__(self):
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.secret = self.directory / "secret"
            self.secret.write_text(os.urandom(32).hex() + "\n")
            self.secret.chmod(0o600)
            if self.tls:
                self.keys = self._make_keys()
            self._start_metaserver()
            self._start_repair_manager()
            for number in range(self.chunkservers):
                self.start_chunkserver(number)
            self.wait_for_servers()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *unused):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.processes.clear()
        for number in range(self.chunkservers):
            remove_disk(self._disk(number))
        shutil.rmtree(self.directory, ignore_errors=True)

    def _spawn(self, name, host, binary, settings):
        for key in settings:
            if key.replace(".", "-").replace("_", "-") not in self.known[binary]:
                raise LabError(f"{binary} has no setting {key}: build a version that does")
        if "daemons-on-machine" in self.known[binary]:  # older builds do not share the machine's memory
            settings = {"daemons_on_machine": self.chunkservers + 1, **settings}
        if "tls-require" in self.known[binary]:
            settings = {**self._tls(host), **settings}
        config = self.directory / f"{name}.toml"
        config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        with open(self.directory / f"{name}.out", "ab") as log:
            self.processes[name] = self.network.start(host, self.binaries / binary, "--config", config, stdout=log,
                                                      stderr=log)

    def _tls(self, host):
        """Namespaces of one machine are a network that can be trusted, unless TLS is what is measured."""
        if self.keys is None:
            return {"tls.require": False}
        tls = self.keys / "hosts" / f"host-{host}" / "tls"
        return {"tls.certificate": str(tls / "host.crt"), "tls.key": str(tls / "host.key"), "tls.authority": str(tls / "authority.crt")}

    def _make_keys(self):
        """For all hosts of the network: `kintsugi cluster init` makes them."""
        hosts = self.directory / "hosts.toml"
        hosts.write_text("".join(f"[hosts.host-{host}]\naddress = \"{self.network.address(host)}\"\n" + ROLES.get(host, STORE)
                                 for host in range(1, FIRST_CHUNKSERVER + self.chunkservers)))
        subprocess.run([self.binaries / "kintsugi", "cluster", "init", hosts, "--out", self.directory / "keys"], check=True,
                       stdout=subprocess.DEVNULL)
        return self.directory / "keys"

    def _start_metaserver(self):
        data = self.directory / "meta"
        data.mkdir(exist_ok=True)
        address = self.network.address(META)
        self._spawn("metaserver", META, "kintsugi-metaserver", {
            "listen": f"{address}:{self.port}", "http_listen": f"{address}:{self.port + 1}", "data_dir": str(data),
            "secret_file": str(self.secret), "log_file": str(self.directory / "metaserver.log"), "repair.delay": "1h",
            "chunk_bytes": "256MiB", **self.settings.get("metaserver", {})})

    def _start_repair_manager(self):
        """On the metaserver's host, at any port."""
        address = self.network.address(META)
        self._spawn("repair-manager", META, "kintsugi-repair-manager", {
            "listen": f"{address}:0", "metaserver": f"{address}:{self.port}", "secret_file": str(self.secret),
            "log_file": str(self.directory / "repair-manager.log"), **self.settings.get("repair-manager", {})})

    def restart_metaserver(self, settings):
        """With other settings on the same data."""
        self.settings.setdefault("metaserver", {}).update(settings)
        process = self.processes.pop("metaserver")
        process.terminate()
        process.wait()
        self._start_metaserver()
        self.wait_for_servers()

    def _disk(self, number):
        return self.directory / f"disk-{number}"

    def start_chunkserver(self, number, empty=False):
        host = server_host(number)
        disk = self._disk(number)
        if empty:
            remove_disk(disk)
        make_disk(disk)
        address = self.network.address(host)
        settings = {"listen": f"{address}:{self.port}", "http_listen": f"{address}:{self.port + 1}",
                    "metaserver": f"{self.network.address(META)}:{self.port}", "disks": [str(disk)],
                    "rack": f"rack-{number % self.racks}", "secret_file": str(self.secret),
                    "log_file": str(self.directory / f"chunkserver-{number}.log"),
                    **self.settings.get("chunkserver", {})}
        if host in self.link_rates and "link-up" in self.known["kintsugi-chunkserver"]:
            up, down = self.link_rates[host]
            settings.update({"link.up": int(up), "link.down": int(down)})
        self._spawn(f"chunkserver-{number}", host, "kintsugi-chunkserver", settings)

    def stop_chunkserver(self, number):
        process = self.processes.pop(f"chunkserver-{number}")
        process.kill()
        process.wait()

    def restart_chunkservers(self, link_rates):
        self.link_rates = link_rates
        for number in range(self.chunkservers):
            process = self.processes.pop(f"chunkserver-{number}")
            process.terminate()
            process.wait()
            self.start_chunkserver(number)
        time.sleep(1.5)  # until the metaserver has heard from the new processes
        self.wait_for_servers()

    def cpu_seconds(self):
        """What the daemons have used since they started, in user code and in the kernel for them."""
        ticks = 0
        for process in self.processes.values():
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def servers(self):
        """server_id -> state, with "number" and "host" of the lab added."""
        result = {}
        for server in self.cli_json("server", "list")["servers"]:
            host = int(server["address"].split(":")[0].rsplit(".", 1)[1])
            result[server["server_id"]] = dict(server, host=host, number=host - FIRST_CHUNKSERVER)
        return result

    def wait_for_servers(self):
        deadline = time.monotonic() + UP_SECONDS
        expected = sum(name.startswith("chunkserver-") for name in self.processes)
        while True:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    said = (self.directory / f"{name}.out").read_text(errors="replace").strip()
                    raise LabError(f"{name} ended at once: {said}")
            result = self.cli("server", "list", "--json", check=False)
            if result.returncode == 0:
                alive = [s for s in json.loads(result.stdout)["servers"] if s["liveness"] == "alive"]
                if len(alive) >= expected:
                    return
            if time.monotonic() > deadline:
                raise LabError(f"the cluster did not come up in {UP_SECONDS} s: {result.stdout} {result.stderr}")
            time.sleep(0.2)

    def environment(self):
        keys = {f"KINTSUGI_{key.replace('.', '_').upper()}": value for key, value in self._tls(CLIENT).items() if self.keys}
        return dict(os.environ, KINTSUGI_META=f"{self.network.address(META)}:{self.port}", KINTSUGI_SECRET_FILE=str(self.secret), **keys)

    def start_cli(self, *arguments, program=None, **options):
        """A client command in the background; `program`: another `kintsugi` than that of the cluster."""
        return self.network.start(CLIENT, program or self.binaries / "kintsugi", *arguments, env=self.environment(), **options)

    def cli(self, *arguments, check=True, program=None):
        process = self.start_cli(*arguments, program=program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, error = process.communicate()
        except BaseException:
            process.kill()
            process.wait()
            raise
        if check and process.returncode != 0:
            raise CommandFailed(f"kintsugi {' '.join(map(str, arguments))}: {error.strip() or out.strip()}")
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    def cli_json(self, *arguments, program=None):
        return json.loads(self.cli(*arguments, "--json", program=program).stdout)


class CommandFailed(LabError):
    pass


def write_random(path, size):
    """Random bytes; returns their digest."""
    digest = hashlib.blake2b()
    with open(path, "wb") as out:
        while size > 0:
            block = os.urandom(min(size, MIB))
            digest.update(block)
            out.write(block)
            size -= len(block)
    return digest.hexdigest()


def digest_of(path):
    digest = hashlib.blake2b()
    with open(path, "rb") as data:
        while block := data.read(MIB):
            digest.update(block)
    return digest.hexdigest()
