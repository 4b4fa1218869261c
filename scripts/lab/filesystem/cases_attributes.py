"""chmod, chown, utimensat, access, truncate: who may change what of an object, and what else changes with it."""

import itertools
import os
import resource
import signal

import calls
from calls import KINDS, OWNER, USERS
from case import Case, at, object_of, steps

FOREIGN_GROUP = (2001, 2777, ())  # an owner whose file belongs to a group that is not the owner's


def chmod():
    modes = [0, 0o111, 0o644, 0o755, 0o1777, 0o2755, 0o4755, 0o6711, 0o7777]
    for kind, mode, (who, user), owner in itertools.product(KINDS, modes, USERS.items(), [OWNER, FOREIGN_GROUP]):
        yield Case(f"chmod {mode:o} of a {kind} of group {owner[1]} by {who}", object_of(kind, 0o640, owner), lambda d, m=mode: os.chmod(at(d, "x"), m), user)
    for kind, mode, (who, user) in itertools.product(["file", "dir", "fifo"], modes, USERS.items()):

        def through_descriptor(d, m=mode):
            with calls.as_user(calls.ROOT):
                fd = os.open(at(d, "x"), os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.fchmod(fd, m)
            finally:
                os.close(fd)

        yield Case(f"fchmod {mode:o} of a {kind} by {who}", object_of(kind, 0o666), through_descriptor, user)
    for kind in ("link", "file", "dangling"):
        yield Case(
            f"fchmodat of a {kind} itself",
            object_of(kind),
            lambda d: calls.libc("fchmodat", calls.AT_FDCWD, calls.raw(at(d, "x")), 0o600, calls.AT_SYMLINK_NOFOLLOW),
        )


def chown():
    pairs = [(-1, -1), (2001, -1), (-1, 2001), (2003, -1), (-1, 2002), (-1, 2777), (2003, 2003), (0, 0), (2001, 2001)]
    modes = [0o644, 0o6755, 0o6644, 0o2755, 0o2745, 0o4711, 0o7777]
    users = {**USERS, "owner in the other group": (2001, 2001, (2002, 2777))}
    for kind, (uid, gid), mode, (who, user) in itertools.product(["file", "dir", "fifo", "char"], pairs, modes, users.items()):
        yield Case(f"chown {uid}:{gid} of a {kind} {mode:o} by {who}", object_of(kind, mode), lambda d, u=uid, g=gid: os.chown(at(d, "x"), u, g), user)
    for kind, (uid, gid), (who, user) in itertools.product(["link", "dangling", "file"], pairs, users.items()):
        yield Case(f"lchown {uid}:{gid} of a {kind} by {who}", object_of(kind, 0o6755), lambda d, u=uid, g=gid: os.lchown(at(d, "x"), u, g), user)
        yield Case(f"chown {uid}:{gid} through a {kind} by {who}", object_of(kind, 0o6755), lambda d, u=uid, g=gid: os.chown(at(d, "x"), u, g), user)


def utimensat():
    now, omit, past = (0, calls.UTIME_NOW), (0, calls.UTIME_OMIT), (1_000_000_000, 123_456_789)
    named = {"now": now, "omit": omit, "past": past}
    for (a, accessed), (m, modified), (who, user), mode, kind in itertools.product(
        named.items(), named.items(), USERS.items(), [0o644, 0o666, 0o444, 0], ["file", "dir"]
    ):
        yield Case(
            f"utimensat {a} {m} of a {kind} {mode:o} by {who}", object_of(kind, mode), lambda d, x=accessed, y=modified: calls.utimensat(at(d, "x"), x, y), user
        )
    for (who, user), mode, kind in itertools.product(USERS.items(), [0o644, 0o666, 0], KINDS):
        yield Case(f"utimensat without times of a {kind} {mode:o} by {who}", object_of(kind, mode), lambda d: calls.utimensat(at(d, "x"), None, None), user)
    moments = [
        (-1, 0),
        (-1, 999_999_999),
        (-(2**31), 0),
        (2**31 - 1, 999_999_999),
        (2**31, 0),
        (2**32, 1),
        (2**33, 0),
        (0, 0),
        (0, 1),
        (1, 999_999_999),
        (5, 1_000_000_000),
        (5, -1),
        (2**34, 0),
        (2**40, 0),
        (-(2**40), 0),
    ]
    for moment, kind, flags in itertools.product(moments, ["file", "dir", "link", "fifo"], [0, calls.AT_SYMLINK_NOFOLLOW]):
        yield Case(
            f"utimensat to {moment} of a {kind}, flags {flags}", object_of(kind), lambda d, t=moment, f=flags: calls.utimensat(at(d, "x"), t, (t[0], t[1]), f)
        )
    for (who, user), kind in itertools.product(USERS.items(), ["link", "dangling"]):
        for name, moment in named.items():
            yield Case(
                f"utimensat {name} of a {kind} itself by {who}",
                object_of(kind),
                lambda d, t=moment: calls.utimensat(at(d, "x"), t, t, calls.AT_SYMLINK_NOFOLLOW),
                user,
            )

    def after_a_write(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            os.write(fd, b"later")
            os.utime(fd, ns=(10**18, 10**18 + 7))
        return os.stat(at(d, "x")).st_mtime_ns

    yield Case("futimens after a write, then close", object_of("file"), after_a_write)

    def before_a_write(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            os.utime(fd, ns=(10**18, 10**18 + 7))
            os.write(fd, b"later")

    yield Case("a write after futimens", object_of("file"), before_a_write)


def access():
    for mode, owner, wanted, (who, user), kind in itertools.product(
        [0, 0o111, 0o222, 0o444, 0o100, 0o040, 0o002, 0o750, 0o707, 0o077, 0o001], [OWNER, calls.ROOT], [0, 1, 2, 4, 5, 6, 7], USERS.items(), ["file", "dir"]
    ):
        yield Case(
            f"access {wanted} of a {kind} {mode:o} of {owner[0]} by {who}",
            object_of(kind, mode, owner),
            lambda d, w=wanted: [os.access(at(d, "x"), w), calls.outcome(calls.faccessat2, at(d, "x"), w, 0x200)],
            user,
        )


def truncate():
    sizes = [0, 1, 7, 4095, 4096, 70_000, 1 << 20, 1 << 31, 1 << 40, (1 << 43) - 4096, -1, -(2**63)]
    for size, kind in itertools.product(sizes, KINDS):
        yield Case(f"truncate a {kind} to {size}", object_of(kind), lambda d, s=size: calls.libc("truncate", calls.raw(at(d, "x")), calls.ctypes.c_int64(s)))
    for size, mode, (who, user) in itertools.product([0, 7, 100], [0o644, 0o666, 0o6777, 0o6755, 0o2767, 0o4666, 0o222], USERS.items()):
        yield Case(f"truncate a file {mode:o} to {size} by {who}", object_of("file", mode), lambda d, s=size: os.truncate(at(d, "x"), s), user)
    for size, flags, mode in itertools.product(sizes, [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND], [0o644, 0o6777]):

        def cut(d, s=size, f=flags):
            with calls.opened(at(d, "x"), f) as fd:
                calls.libc("ftruncate", fd, calls.ctypes.c_int64(s))

        yield Case(f"ftruncate to {size}, opened with {flags:o}, of {mode:o}", object_of("file", mode), cut)
    for size, (who, user), mode in itertools.product([0, 7, 9], USERS.items(), [0o6777, 0o6767, 0o2666, 0o6755]):

        def cut_opened(d, s=size):
            with calls.as_user(calls.ROOT):
                fd = os.open(at(d, "x"), os.O_RDWR)
            try:
                os.ftruncate(fd, s)
            finally:
                os.close(fd)

        yield Case(f"ftruncate to {size} of a file {mode:o} that was opened by root, by {who}", object_of("file", mode), cut_opened, user)
    for flags in (os.O_PATH, os.O_DIRECTORY):

        def cut_directory(d, f=flags):
            with calls.opened(d, f) as fd:
                os.ftruncate(fd, 0)

        yield Case(f"ftruncate of a directory opened with {flags:o}", object_of("none"), cut_directory)

    def limited(d):
        def run():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
            return steps(
                lambda d: os.truncate(at(d, "x"), 6000), lambda d: os.truncate(at(d, "x"), 4000), lambda d: write_at(d, 4990), lambda d: write_at(d, 5000)
            )(d)

        return calls.in_child(run)

    def write_at(d, offset):
        with calls.opened(at(d, "x"), os.O_WRONLY) as fd:
            return os.pwrite(fd, b"y" * 100, offset)

    yield Case("truncate and write at RLIMIT_FSIZE", object_of("file"), limited)

    def killed(d):
        def run():
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
            write_at(d, 6000)

        return calls.in_child(run)

    yield Case("a write behind RLIMIT_FSIZE ends the process", object_of("file"), killed)


FAMILIES = {"chmod": chmod, "chown": chown, "utimensat": utimensat, "access": access, "truncate": truncate}
