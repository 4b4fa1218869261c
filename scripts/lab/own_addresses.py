"""Addresses for daemons that a test or script starts itself, at ports that it has to know before: the clusters of `kintsugi cluster start`
choose theirs."""

import itertools
import os
import socket

FIRST_PORT, END_OF_PORTS = 10_000, 20_000  # others than `kintsugi cluster start` gives, for rules by port
_ports = itertools.count(FIRST_PORT)


def own_host():
    """The loopback address of this process. A port that the kernel chose and that was let go again could be taken before its daemon
    listens, or while it is down, by whoever chooses one in the same way, or connects to somebody. Nobody who runs has the same number,
    and connections inside of the host come from 127.0.0.1, so nothing has to be claimed or given back. 22 bits are all that a number has."""
    number = os.getpid()
    return f"127.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def own_address():
    """Another one with each call, "127.64.1.2:10000". Those are left out at which somebody listens: at all addresses, or a daemon that a
    process with this number has left behind."""
    for port in _ports:
        if port == END_OF_PORTS:
            break
        try:
            socket.create_server((own_host(), port)).close()
        except OSError:
            continue
        return f"{own_host()}:{port}"
    raise RuntimeError(f"this process has had all ports between {FIRST_PORT} and {END_OF_PORTS}")
