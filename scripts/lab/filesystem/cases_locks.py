"""flock, fcntl and open-file-description locks: who keeps whom out, over which bytes, and when locks end."""


import fcntl
import itertools
import os
import struct
import time

import calls
from case import Case, at, object_of

GETLK, SETLK, SETLKW = fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW
OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
READ, WRITE, FREE = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
NAMES = {READ: "read", WRITE: "write", FREE: "none"}


def lock(fd, kind, type_of, begin, length, whence=0):
    """`kind`: a command of fcntl, or flock. What F_GETLK found has no process in it, since those differ."""
    if kind == "flock":
        fcntl.flock(fd, {READ: fcntl.LOCK_SH, WRITE: fcntl.LOCK_EX, FREE: fcntl.LOCK_UN}[type_of] | fcntl.LOCK_NB)
        return "locked"
    answer = struct.unpack("hhqqi4x", fcntl.fcntl(fd, kind, struct.pack("hhqqi4x", type_of, whence, begin, length, 0)))
    if kind in (GETLK, OFD_GETLK):
        return answer[0], answer[1], answer[2], answer[3], (answer[4] > 0) - (answer[4] < 0)
    return "locked"


def in_other_process(function):
    """Another process is another owner of fcntl locks."""
    return calls.in_child(function)


def conflicts():
    kinds = {"fcntl": (SETLK, GETLK), "ofd": (OFD_SETLK, OFD_GETLK), "flock": ("flock", None)}
    ranges = [(0, 0), (0, 10), (10, 10), (5, 10), (19, 1), (20, 5), (2**62, 0), (9, 1)]
    for (one, first), (two, second), held, wanted, (begin, length), same in itertools.product(
        kinds.items(), kinds.items(), [READ, WRITE], [READ, WRITE], ranges, [False, True]
    ):
        if (one == "flock" and two == "flock" and (begin, length) != (0, 0)) or ("flock" in (one, two) and one != two and length != 10):
            continue

        def act(d, first=first, second=second, held=held, wanted=wanted, begin=begin, length=length, same=same):
            with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                said = [calls.outcome(lock, fd, first[0], held, 10, 10)]

                def other():
                    with calls.opened(at(d, "x"), os.O_RDWR) as again:
                        asked = [calls.outcome(lock, again, second[1], wanted, begin, length)] if second[1] else []
                        return asked + [calls.outcome(lock, again, second[0], wanted, begin, length), calls.outcome(lock, again, second[0], FREE, 0, 0)]

                said.append(other() if same else in_other_process(other))
                return said + [calls.outcome(lock, fd, first[0], held, 10, 10), calls.outcome(lock, fd, first[0], FREE, 0, 0)]

        yield Case(
            f"{one} {NAMES[held]} lock of 10+10, {two} {NAMES[wanted]} lock of {begin}+{length} in {'the same' if same else 'another'} process",
            object_of("file"),
            act,
        )


def arguments():
    for flags, kind, wanted in itertools.product(
        [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH], [SETLK, OFD_SETLK, GETLK, OFD_GETLK, "flock"], [READ, WRITE, FREE]
    ):

        def act(d, f=flags, k=kind, w=wanted):
            with calls.opened(at(d, "x"), f) as fd:
                return lock(fd, k, w, 0, 10)

        yield Case(f"{kind} {NAMES[wanted]} on a descriptor opened with {flags:o}", object_of("file"), act)
    for kind, (begin, length, whence) in itertools.product(
        [SETLK, OFD_SETLK, GETLK],
        [
            (-1, 5, 0),
            (5, -3, 0),
            (5, -6, 0),
            (0, -1, 0),
            (2**63 - 1, 1, 0),
            (2**63 - 1, 2, 0),
            (2**63 - 5, 100, 0),
            (-3, 3, 2),
            (0, 0, 2),
            (-20, 3, 2),
            (1, 1, 1),
            (0, 5, 3),
            (0, 5, 7),
        ],
    ):

        def placed(d, k=kind, b=begin, n=length, w=whence):
            with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                os.lseek(fd, 3, 0)
                said = [calls.outcome(lock, fd, k, WRITE, b, n, w)]
                said.append(
                    in_other_process(
                        lambda: [
                            lock(os.open(at(d, "x"), os.O_RDWR), OFD_GETLK, WRITE, 0, 0),
                            lock(os.open(at(d, "x"), os.O_RDWR), OFD_GETLK, WRITE, 2**62, 0),
                        ]
                    )
                )
                return said

        yield Case(f"{kind} at {begin} for {length}, whence {whence}", object_of("file"), placed)
    for kind, what in itertools.product([SETLK, OFD_SETLK, "flock"], ["dir", "fifo"]):

        def odd(d, k=kind):
            with calls.opened(at(d, "x"), os.O_RDONLY | os.O_NONBLOCK) as fd:
                return lock(fd, k, READ, 0, 1)

        yield Case(f"{kind} on a {what}", object_of(what), odd)


def ranges():
    """What is left of a lock that is split, joined, and changed."""
    changes = [
        (FREE, 12, 3),
        (READ, 12, 3),
        (WRITE, 12, 3),
        (READ, 0, 0),
        (WRITE, 5, 5),
        (WRITE, 20, 5),
        (FREE, 0, 11),
        (FREE, 19, 10),
        (WRITE, 9, 30),
        (READ, 20, 10),
    ]
    for kind, first, (one, other) in itertools.product([SETLK, OFD_SETLK], [READ, WRITE], itertools.product(changes, changes)):

        def act(d, k=kind, f=first, steps=(one, other)):
            with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                said = [lock(fd, k, f, 10, 10)] + [calls.outcome(lock, fd, k, *step) for step in steps]

                def look():
                    with calls.opened(at(d, "x"), os.O_RDWR) as again:
                        return [lock(again, GETLK, wanted, place, 1)[0] for wanted in (READ, WRITE) for place in range(0, 40)], lock(again, GETLK, WRITE, 0, 0)

                return said + [in_other_process(look)]

        yield Case(f"{kind} {NAMES[first]} 10+10, then {NAMES[one[0]]} {one[1]}+{one[2]}, then {NAMES[other[0]]} {other[1]}+{other[2]}", object_of("file"), act)


def endings():
    """When a lock ends."""

    def free(d, kind):
        def look():
            with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                deadline = time.time() + 1  # of a descriptor that is closed locks may end a moment later
                while (said := calls.outcome(lock, fd, kind, WRITE, 0, 0)) != "locked" and time.time() < deadline:
                    time.sleep(0.02)
                return said

        return in_other_process(look)

    for kind in (SETLK, OFD_SETLK, "flock"):

        def closed(d, k=kind):
            fd = os.open(at(d, "x"), os.O_RDWR)
            lock(fd, k, WRITE, 0, 5)
            os.close(fd)
            return free(d, k)

        yield Case(f"{kind} ends with the close", object_of("file"), closed)

        def copied(d, k=kind):
            fd = os.open(at(d, "x"), os.O_RDWR)
            copy = os.dup(fd)
            lock(fd, k, WRITE, 0, 5)
            os.close(copy)
            said = free(d, k)
            os.close(fd)
            return said

        yield Case(f"{kind} and the close of a copy", object_of("file"), copied)

        def other_descriptor(d, k=kind):
            fd = os.open(at(d, "x"), os.O_RDWR)
            lock(fd, k, WRITE, 0, 5)
            os.close(os.open(at(d, "x"), os.O_RDWR))
            said = free(d, k)
            os.close(fd)
            return said

        yield Case(f"{kind} and the close of another descriptor of the file", object_of("file"), other_descriptor)

        def of_child(d, k=kind):
            fd = os.open(at(d, "x"), os.O_RDWR)
            in_other_process(lambda: lock(fd, k, WRITE, 0, 5))
            said = free(d, k)
            os.close(fd)
            return said, free(d, k)

        yield Case(f"{kind} of a child that ended", object_of("file"), of_child)

        def removed(d, k=kind):
            with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                lock(fd, k, WRITE, 0, 5)
                os.unlink(at(d, "x"))
                calls.make("file", at(d, "x"))
                return free(d, k), calls.outcome(lock, fd, k, FREE, 0, 5)

        yield Case(f"{kind} of a file that is removed and made again", object_of("file"), removed)

        def changes(d, k=kind):
            with calls.opened(at(d, "x"), os.O_RDWR) as fd, calls.opened(at(d, "x"), os.O_RDWR) as other:
                return [
                    calls.outcome(lock, f, k, t, 0, 0)
                    for f, t in ((fd, READ), (other, READ), (fd, WRITE), (other, FREE), (fd, WRITE), (other, READ), (fd, READ), (other, READ))
                ]

        yield Case(f"{kind} made stronger and weaker", object_of("file"), changes)

    def waits(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            lock(fd, SETLK, WRITE, 0, 5)
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.write(writer, b"w")
                again = os.open(at(d, "x"), os.O_RDWR)
                os.write(writer, repr(calls.outcome(lock, again, SETLKW, WRITE, 0, 0)).encode())
                os._exit(0)
            os.read(reader, 1)
            time.sleep(0.2)
            lock(fd, SETLK, FREE, 0, 5)
            os.waitpid(pid, 0)
            said = os.read(reader, 100)
            os.close(reader)
            os.close(writer)
            return said

    yield Case("a lock that is waited for", object_of("file"), waits)

    def deadlock(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            lock(fd, SETLK, WRITE, 0, 1)
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                again = os.open(at(d, "x"), os.O_RDWR)
                lock(again, SETLK, WRITE, 5, 1)
                os.write(writer, b"r")
                os.write(writer, repr(calls.outcome(lock, again, SETLKW, WRITE, 0, 1)).encode())
                os._exit(0)
            os.read(reader, 1)
            time.sleep(0.3)
            said = calls.outcome(lock, fd, SETLKW, WRITE, 5, 1)
            lock(fd, SETLK, FREE, 0, 0)
            os.waitpid(pid, 0)
            other = os.read(reader, 100)
            os.close(reader)
            os.close(writer)
            return said, other

    yield Case("two that wait for one another", object_of("file"), deadlock)


FAMILIES = {"lock conflicts": conflicts, "lock arguments": arguments, "lock ranges": ranges, "lock endings": endings}
