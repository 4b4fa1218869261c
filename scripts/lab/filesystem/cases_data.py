"""Contents: reads and writes at odd places, holes, fallocate, copy_file_range."""

import ctypes
import itertools
import os

import calls
from case import Case, at, object_of

BLOCK = 4096
MAX = 2**63 - 1


def reading_and_writing():
    offsets = [0, 1, 6, 7, 8, 4095, 4096, 100_000, (1 << 31) - 1, 1 << 32, 1 << 42, (1 << 43), MAX - 7, MAX - 1, MAX, -1, -(2**63)]
    for offset in offsets:

        def both(d, at_offset=offset):
            with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                buffer = ctypes.create_string_buffer(b"written", 7)
                said = [
                    calls.outcome(calls.libc, "pwrite64", fd, buffer, 7, ctypes.c_int64(at_offset)),
                    calls.outcome(calls.libc, "pread64", fd, buffer, 7, ctypes.c_int64(at_offset)),
                    buffer.raw,
                    calls.outcome(calls.lseek, fd, at_offset, 0),
                    calls.outcome(os.write, fd, b"more"),
                    calls.outcome(calls.lseek, fd, 0, 1),
                    os.fstat(fd).st_size,
                ]
                return said

        yield Case(f"pwrite, pread and lseek at {offset}", object_of("file"), both)
        for whence in (0, 1, 2, 3, 4, 5):

            def seek(d, o=offset, w=whence):
                with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                    os.lseek(fd, 3, 0)
                    return calls.outcome(calls.lseek, fd, o, w), calls.lseek(fd, 0, 1)

            yield Case(f"lseek by {offset}, whence {whence}", object_of("file"), seek)
    for flags, kind in itertools.product([os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH], ["file", "dir"]):

        def wrong(d, f=flags):
            with calls.opened(at(d, "x"), f) as fd:
                return [
                    calls.outcome(os.read, fd, 0),
                    calls.outcome(os.read, fd, 5),
                    calls.outcome(os.write, fd, b""),
                    calls.outcome(os.write, fd, b"x"),
                    calls.outcome(os.readv, fd, [bytearray(2), bytearray(3)]),
                    calls.outcome(os.ftruncate, fd, 3),
                    calls.outcome(calls.fallocate, fd, 0, 0, 10),
                    calls.outcome(os.fsync, fd),
                    calls.outcome(calls.lseek, fd, 0, 3),
                ]

        yield Case(f"a {kind} opened with {flags:o} is used", object_of(kind), wrong)
    yield Case("an empty write changes no times", object_of("file"), lambda d: [(os.write(fd, b""), os.close(fd)) for fd in [os.open(at(d, "x"), os.O_WRONLY)]])
    yield Case(
        "an empty write with O_APPEND",
        object_of("file"),
        lambda d: [(os.write(fd, b""), os.close(fd)) for fd in [os.open(at(d, "x"), os.O_WRONLY | os.O_APPEND)]],
    )
    for mode, (who, user) in itertools.product([0o6777, 0o4755, 0o2755, 0o2745, 0o6711, 0o2666], calls.USERS.items()):

        def write(d):
            with calls.as_user(calls.ROOT):
                fd = os.open(at(d, "x"), os.O_WRONLY)
            os.write(fd, b"new")
            told = oct(os.fstat(fd).st_mode)
            os.close(fd)
            return told

        yield Case(f"a write to a file {mode:o} by {who}", object_of("file", mode), write, user)

    def vectors(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            into = [bytearray(3), bytearray(0), bytearray(10)]
            return [
                os.writev(fd, [b"a" * 3000, b"", b"b" * 3000]),
                os.pwritev(fd, [b"c", b"d"], 10_000),
                os.preadv(fd, into, 2998),
                bytes(into[0]),
                bytes(into[2]),
                calls.outcome(os.pwritev, fd, [b"end"], 0, os.RWF_APPEND),
                calls.outcome(os.pwritev, fd, [b"end"], 5, os.RWF_DSYNC),
                calls.outcome(os.preadv, fd, into, 0, os.RWF_NOWAIT) is not None,
                os.fstat(fd).st_size,
            ]

    yield Case("vectors", object_of("file"), vectors)

    def sendfile(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd, calls.opened(at(d, "y"), os.O_CREAT | os.O_RDWR) as to:
            return os.sendfile(to, fd, 2, 100), os.pread(to, 100, 0)

    yield Case("sendfile", object_of("file"), sendfile)


def layouts():
    """Data at some blocks of a file of 16 blocks and a bit."""
    for name, blocks, size in (
        ("all", range(17), 16 * BLOCK + 100),
        ("none", [], 16 * BLOCK),
        ("first", [0], 16 * BLOCK),
        ("last", [15], 16 * BLOCK),
        ("some", [1, 2, 7, 12], 16 * BLOCK + 100),
        ("empty", [], 0),
        ("short", [0], 100),
    ):

        def setup(d, blocks=blocks, size=size):
            with calls.opened(at(d, "x"), os.O_CREAT | os.O_RDWR) as fd:
                for block in blocks:
                    os.pwrite(fd, bytes([65 + block]) * BLOCK, block * BLOCK)
                os.ftruncate(fd, size)

        yield name, setup


def map_of(fd, size):
    """Where data is and where holes are, as told."""
    found, offset = [], 0
    for _ in range(100):
        data = calls.outcome(calls.lseek, fd, offset, 3)
        hole = calls.outcome(calls.lseek, fd, offset, 4)
        found.append((data, hole))
        if not isinstance(data, int) or not isinstance(hole, int) or hole >= size:
            break
        offset = hole if data == offset else data
    return found


def holes():
    for name, setup in layouts():
        for synced in (False, True):

            def look(d, s=synced):
                with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                    if s:
                        os.fsync(fd)
                    size = os.fstat(fd).st_size
                    return map_of(fd, size), [
                        (calls.outcome(calls.lseek, fd, o, 3), calls.outcome(calls.lseek, fd, o, 4))
                        for o in (0, 1, BLOCK - 1, BLOCK, 5 * BLOCK + 7, size - 1, size, size + 1, -1)
                    ]

            yield Case(f"SEEK_DATA and SEEK_HOLE, data in {name}, {'synced' if synced else 'as written'}", setup, look)


def allocation():
    modes = {
        "allocate": 0,
        "keep size": 1,
        "punch": 3,
        "punch without keep size": 2,
        "zero": 16,
        "zero keep size": 17,
        "zero and punch": 19,
        "collapse": 8,
        "insert": 32,
        "unshare": 64,
        "unknown": 0x100,
        "collapse keep size": 9,
    }
    ranges = [
        (0, BLOCK),
        (BLOCK, 2 * BLOCK),
        (0, 16 * BLOCK),
        (15 * BLOCK, 4 * BLOCK),
        (20 * BLOCK, BLOCK),
        (100, 50),
        (4000, 5000),
        (0, 1 << 20),
        (0, 0),
        (-1, 10),
        (0, -1),
        (MAX, 10),
        (MAX - 100, 50),
    ]
    for (layout, setup), (name, mode), (offset, length) in itertools.product(layouts(), modes.items(), ranges):

        def allocate(d, m=mode, o=offset, n=length):
            with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                said = calls.outcome(calls.fallocate, fd, m, o, n)
                return said, os.fstat(fd).st_size, map_of(fd, os.fstat(fd).st_size) if o % BLOCK == 0 and n % BLOCK == 0 and m not in (0, 1, 16, 17) else None

        yield Case(f"fallocate {name} at {offset} for {length}, data in {layout}", setup, allocate)
    for flags, kind in itertools.product([os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_DIRECTORY, os.O_PATH], ["file", "dir"]):

        def wrong(d, f=flags):
            with calls.opened(at(d, "x"), f) as fd:
                calls.fallocate(fd, 0, 0, 100)

        yield Case(f"fallocate of a {kind} opened with {flags:o}", object_of(kind), wrong)
    for mode, (who, user) in itertools.product([0, 1, 3, 16], calls.USERS.items()):

        def privileged(d, m=mode):
            with calls.as_user(calls.ROOT):
                fd = os.open(at(d, "x"), os.O_RDWR)
            said = calls.outcome(calls.fallocate, fd, m, 0, 20)
            os.close(fd)
            return said

        yield Case(f"fallocate {mode} of a file 6777 by {who}", object_of("file", 0o6777), privileged, user)


def copying():
    ranges = [
        (0, 0, 7),
        (0, 3, 4),
        (2, 0, 100),
        (7, 0, 1),
        (8, 0, 1),
        (0, 100_000, 7),
        (0, 0, 0),
        (0, 0, 1 << 30),
        (-1, 0, 5),
        (0, -1, 5),
        (0, MAX - 3, 7),
        (0, MAX, 1),
        (MAX, 0, 1),
    ]
    for (a, b, count), big in itertools.product(ranges, [False, True]):

        def copy(d, a=a, b=b, n=count):
            with calls.opened(at(d, "x"), os.O_RDONLY) as one, calls.opened(at(d, "y"), os.O_CREAT | os.O_RDWR) as two:
                return calls.outcome(calls.copy_file_range, one, a, two, b, n), os.fstat(two).st_size

        content = bytes(range(256)) * 2000 if big else b"content"
        yield Case(f"copy_file_range from {a} to {b} of {count}{', half a MiB' if big else ''}", object_of("file", content=content), copy)

        def within(d, a=a, b=b, n=count):
            with calls.opened(at(d, "x"), os.O_RDWR) as one:
                return calls.outcome(calls.copy_file_range, one, a, one, b, n), os.fstat(one).st_size

        yield Case(f"copy_file_range within a file from {a} to {b} of {count}{', half a MiB' if big else ''}", object_of("file", content=content), within)
    for source, target, flags in itertools.product(
        [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH], [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_PATH], [0, 1]
    ):

        def descriptors(d, s=source, t=target, f=flags):
            calls.make("file", at(d, "y"))
            with calls.opened(at(d, "x"), s) as one, calls.opened(at(d, "y"), t) as two:
                return calls.copy_file_range(one, 0, two, 0, 5, f)

        yield Case(f"copy_file_range between descriptors {source:o} and {target:o}, flags {flags}", object_of("file"), descriptors)
    for one, other in itertools.product(["file", "dir", "fifo", "char"], repeat=2):

        def kinds(d, b=other):
            calls.make(b, at(d, "y"))
            with calls.opened(at(d, "x"), os.O_RDONLY | os.O_NONBLOCK) as one, calls.opened(
                at(d, "y"), (os.O_RDONLY if b == "dir" else os.O_RDWR) | os.O_NONBLOCK
            ) as two:
                return calls.copy_file_range(one, None, two, None, 5)

        yield Case(f"copy_file_range from a {one} to a {other}", object_of(one), kinds)

    def positions(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as one, calls.opened(at(d, "y"), os.O_CREAT | os.O_RDWR) as two:
            os.lseek(one, 2, 0)
            said = [
                calls.copy_file_range(one, None, two, None, 3),
                calls.copy_file_range(one, None, two, None, 30),
                calls.lseek(one, 0, 1),
                calls.lseek(two, 0, 1),
            ]
            return said + [os.pread(two, 100, 0)]

    yield Case("copy_file_range moves positions", object_of("file"), positions)


FAMILIES = {"reading and writing": reading_and_writing, "holes": holes, "allocation": allocation, "copying": copying}
