#!/usr/bin/env python3
"""Writes the daemons of a cluster as targets for Prometheus (file_sd_configs).

    kintsugi_targets.py --monitor 10.0.0.2:9701 --metaserver 10.0.0.1:9601 --repair-manager 10.0.0.1:9605 --output FILE [--tls DIR]

The monitor tells which chunkservers there are, also those that are dead, until `kintsugi server remove` forgets them. It does not
tell where the pages of the metaserver and of repair managers are: name these. All addresses are those of `http_listen`.
--tls names a directory with host.crt, host.key and authority.crt, as `kintsugi cluster init` makes it: other hosts serve their pages
over TLS, and Prometheus is told so. The file is replaced as a whole. When the monitor does not answer, the file stays as it is and the exit status is 1: Prometheus goes
on with the targets that it had.
"""

import argparse
import collections
import ipaddress
import json
import os
import pathlib
import ssl
import sys
import tempfile
import urllib.error
import urllib.request

TIMEOUT_SECONDS = 10


class NoTargets(Exception):
    pass


def context_of(directory):
    """What is shown to the monitor, and what it has to show."""
    context = ssl.create_default_context(cafile=directory / "authority.crt")
    context.load_cert_chain(directory / "host.crt", directory / "host.key")
    return context


def chunkservers(monitor, tls):
    """What the monitor says of each chunkserver: its name, number and address of pages."""
    secure = tls is not None and not is_loopback(monitor)
    url = f"{'https' if secure else 'http'}://{monitor}/api/v1/servers"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS, context=context_of(tls) if secure else None) as answer:
            servers = json.load(answer)["servers"]
        return [(server["name"], server["number"], reached(server["http"], server["address"])) for server in servers]
    except (OSError, urllib.error.URLError) as error:
        raise NoTargets(f"the monitor at {monitor} does not answer ({getattr(error, 'reason', error)})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise NoTargets(f"{url} is no page of a kintsugi-monitor") from error


def reached(pages, address):
    """The address of a server's pages. Those that are served on all interfaces are reached where the server itself is."""
    host, _, port = pages.rpartition(":")
    return f"{address.rpartition(':')[0]}:{port}" if host in ("0.0.0.0", "[::]") else pages


def is_loopback(address):
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def target(options, daemon, instance, address):
    labels = {"cluster": options.cluster, "daemon": daemon, "instance": instance}
    if options.tls is not None and not is_loopback(address):
        labels["__scheme__"] = "https"
    return {"targets": [address], "labels": labels}


def targets_of(options):
    """The targets, and a sentence for each server that cannot be scraped."""
    found, warnings = [], []
    for daemon, addresses in (("metaserver", [options.metaserver]), ("monitor", [options.monitor]),
                              ("repair-manager", options.repair_manager)):
        for number, address in enumerate(addresses, 1):
            instance = daemon if daemon != "repair-manager" else f"{daemon}-{number}"
            found.append(target(options, daemon, instance, address))
    servers = chunkservers(options.monitor, options.tls)
    names = collections.Counter(name for name, _, _ in servers)
    for name, number, address in servers:
        # A server whose only disk was replaced joins under its name again, while the dead one is still listed.
        instance = name if names[name] == 1 else f"{name}#{number}"
        if not address:
            warnings.append(f"{instance} has no http_listen and is left out: set it in its chunkserver.toml")
            continue
        if is_loopback(address) and not is_loopback(options.monitor):
            warnings.append(f"{instance} serves its metrics at {address}, which only its own machine reaches: set http_listen")
        found.append(target(options, "chunkserver", instance, address))
    return found, warnings


def write(path, text):
    """Replaces the file at once, readable for Prometheus, which is another user."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False) as out:
        try:
            out.write(text)
            out.flush()
            os.fchmod(out.fileno(), 0o644)
            os.rename(out.name, path)
        except OSError:
            os.unlink(out.name)
            raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--monitor", required=True, metavar="HOST:PORT")
    parser.add_argument("--metaserver", required=True, metavar="HOST:PORT")
    parser.add_argument("--repair-manager", action="append", default=[], metavar="HOST:PORT", help="once for each")
    parser.add_argument("--cluster", default="kintsugi", help="label of all targets; default: kintsugi")
    parser.add_argument("--tls", type=pathlib.Path, metavar="DIR", help="certificate, key and authority for pages of other hosts")
    parser.add_argument("--output", type=pathlib.Path, help="default: standard output")
    options = parser.parse_args()
    try:
        targets, warnings = targets_of(options)
        text = json.dumps(targets, indent=2) + "\n"
        if options.output:
            write(options.output, text)
        else:
            sys.stdout.write(text)
    except NoTargets as error:
        kept = f"; {options.output} stays as it is" if options.output else ""
        sys.exit(f"kintsugi_targets: {error}{kept}")
    except OSError as error:
        sys.exit(f"kintsugi_targets: {options.output} cannot be written: {error.strerror}")
    for warning in warnings:
        print(f"kintsugi_targets: {warning}", file=sys.stderr)


if __name__ == "__main__":
    main()
