"""A Kintsugi cluster on the hosts of a lab network: host 1 is the metaserver, 2 the client, the rest chunkservers."""

import json
import os
import pathlib
import signal
import subprocess
import time

META, CLIENT, FIRST_CHUNKSERVER = 1, 2, 3
META_PORT, CHUNK_PORT = 7400, 7500


class Cluster:
    def __init__(self, network, binaries, directory, chunkservers, policy="rs-6-3-1024k", repair_delay="1h"):
        self.network = network
        self.binaries = pathlib.Path(binaries)
        self.directory = pathlib.Path(directory)
        self.chunkservers = chunkservers
        self.policy = policy
        self.repair_delay = repair_delay
        self.processes = {}

    def __enter__(self):
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.secret = self.directory / "secret"
            self.secret.write_text(os.urandom(32).hex() + "\n")
            self.secret.chmod(0o600)
            self._start_metaserver()
            for number in range(self.chunkservers):
                self.start_chunkserver(number)
            self._wait_for_servers()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *unused):
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
        for process in self.processes.values():
            process.wait()

    def _spawn(self, name, host, binary, settings):
        config = self.directory / f"{name}.toml"
        config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        log = open(self.directory / f"{name}.out", "ab")
        self.processes[name] = subprocess.Popen(
            self.network.command(host, str(self.binaries / binary), "--config", str(config)), stdout=log, stderr=log)

    def _start_metaserver(self):
        data = self.directory / "meta"
        data.mkdir(exist_ok=True)
        self._spawn("metaserver", META, "kintsugi-metaserver", {
            "listen": f"{self.network.address(META)}:{META_PORT}",
            "http_listen": f"{self.network.address(META)}:{META_PORT + 1}",
            "data_dir": str(data), "secret_file": str(self.secret), "policy": self.policy,
            "log_file": str(self.directory / "metaserver.log"), "repair.delay": self.repair_delay})

    def start_chunkserver(self, number):
        host = FIRST_CHUNKSERVER + number
        disk = self.directory / f"disk-{number}"
        disk.mkdir(exist_ok=True)
        self._spawn(f"chunkserver-{number}", host, "kintsugi-chunkserver", {
            "listen": f"{self.network.address(host)}:{CHUNK_PORT}",
            "http_listen": f"{self.network.address(host)}:{CHUNK_PORT + 1}",
            "metaserver": f"{self.network.address(META)}:{META_PORT}", "disks": [str(disk)],
            "secret_file": str(self.secret), "log_file": str(self.directory / f"chunkserver-{number}.log")})

    def _wait_for_servers(self):
        deadline = time.monotonic() + 30
        while True:
            result = self.cli("server", "list", "--json", check=False)
            if result.returncode == 0:
                alive = [s for s in json.loads(result.stdout)["servers"] if s["liveness"] == "alive"]
                if len(alive) == self.chunkservers:
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster did not come up: {result.stdout} {result.stderr}")
            time.sleep(0.2)

    def cli(self, *arguments, host=CLIENT, check=True):
        environment = dict(os.environ, KINTSUGI_META=f"{self.network.address(META)}:{META_PORT}",
                           KINTSUGI_SECRET_FILE=str(self.secret))
        result = subprocess.run(self.network.command(host, str(self.binaries / "kintsugi"), *map(str, arguments)),
                                env=environment, capture_output=True, text=True)
        if check and result.returncode != 0:
            raise RuntimeError(f"kintsugi {' '.join(map(str, arguments))}: {result.stderr.strip()}")
        return result

    def cli_json(self, *arguments):
        return json.loads(self.cli(*arguments, "--json").stdout)
