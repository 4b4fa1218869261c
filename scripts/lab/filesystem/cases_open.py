"""open with every combination of flags on every kind of object, by everybody; what the descriptor may then do; programs that run."""

import itertools
import os
import shutil
import subprocess

import calls
from calls import OTHER, USERS
from case import Case, at, object_of, steps

FLAGS = {
    "CREAT": os.O_CREAT,
    "EXCL": os.O_EXCL,
    "TRUNC": os.O_TRUNC,
    "APPEND": os.O_APPEND,
    "DIRECTORY": os.O_DIRECTORY,
    "NOFOLLOW": os.O_NOFOLLOW,
    "PATH": os.O_PATH,
}
ACCESS = {"RDONLY": os.O_RDONLY, "WRONLY": os.O_WRONLY, "RDWR": os.O_RDWR, "3": 3}
KINDS = ["file", "dir", "fifo", "socket", "char", "block", "link", "dirlink", "dangling", "loop", "none"]


def use(path, flags, mode=0o640):
    """Opens it, and says what its descriptor can do."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    try:
        about = os.fstat(fd)
        return [
            calls.outcome(os.read, fd, 3),
            calls.outcome(os.write, fd, b"NEW"),
            calls.outcome(os.lseek, fd, 0, os.SEEK_CUR),
            oct(about.st_mode),
            calls.outcome(lambda: calls.fcntl_flags(fd) & 0o7777777),
        ]
    finally:
        os.close(fd)


def combinations():
    for count in range(len(FLAGS) + 1):
        for names in itertools.combinations(FLAGS, count):
            yield " ".join(names), sum(FLAGS[name] for name in names)


def flags():
    for kind, (access, wanted), (names, combined) in itertools.product(KINDS, ACCESS.items(), combinations()):
        yield Case(f"open a {kind} with {access} {names}", object_of(kind, 0o755), lambda d, f=wanted | combined: use(at(d, "x"), f))


def permissions():
    modes = [0, 0o100, 0o200, 0o400, 0o600, 0o040, 0o020, 0o060, 0o004, 0o002, 0o006, 0o066, 0o606, 0o660, 0o666, 0o6777]
    for mode, (who, user), (access, wanted), more, kind in itertools.product(
        modes, USERS.items(), ACCESS.items(), [0, os.O_TRUNC, os.O_CREAT, os.O_CREAT | os.O_TRUNC], ["file", "dir"]
    ):
        if kind == "dir" and more:
            continue
        yield Case(f"open a {kind} {mode:o} with {access} {more:o} by {who}", object_of(kind, mode), lambda d, f=wanted | more: use(at(d, "x"), f), user)
    for mode, (who, user) in itertools.product([0o777, 0o666, 0o555, 0o111, 0o700, 0o070, 0o007], USERS.items()):

        def setup(d, m=mode):
            calls.make("dir", at(d, "x"), 0o755)
            calls.make("file", at(d, "x/y"), 0o666)
            os.chmod(at(d, "x"), m)

        yield Case(
            f"below a directory {mode:o} by {who}",
            setup,
            steps(
                lambda d: use(at(d, "x/y"), os.O_RDWR),
                lambda d: use(at(d, "x/z"), os.O_CREAT | os.O_RDWR),
                lambda d: sorted(os.listdir(at(d, "x"))),
                lambda d: os.stat(at(d, "x/y")).st_size,
                lambda d: os.stat(at(d, "x/no")),
                lambda d: os.unlink(at(d, "x/y")),
            ),
            user,
        )
    for mode, directory, (who, user), kind in itertools.product(
        [0o666, 0o644], [(0o1777, 0), (0o1777, 2001), (0o777, 0), (0o1775, 2001)], USERS.items(), ["file", "fifo"]
    ):

        def sticky(d, m=mode, directory=directory, k=kind):
            calls.make("dir", at(d, "x"))
            calls.make(k, at(d, "x/y"), m, OTHER)
            os.chown(at(d, "x"), directory[1], directory[1])
            os.chmod(at(d, "x"), directory[0])

        yield Case(
            f"O_CREAT of another's {kind} {mode:o} in a directory {directory[0]:o} of {directory[1]} by {who}",
            sticky,
            lambda d: use(at(d, "x/y"), os.O_CREAT | os.O_RDWR),
            user,
        )
    for noatime, (who, user) in itertools.product([os.O_NOATIME], USERS.items()):
        yield Case(f"O_NOATIME by {who}", object_of("file", 0o666), lambda d, f=noatime: use(at(d, "x"), f), user)


def programs():
    def program(d, mode=0o755, owner=(0, 0)):
        shutil.copy("/bin/sleep", at(d, "x"))
        os.chown(at(d, "x"), *owner)
        os.chmod(at(d, "x"), mode)

    def running(act):
        def run(d):
            with subprocess.Popen([at(d, "x"), "60"], stdin=subprocess.DEVNULL) as process:
                try:
                    return calls.outcome(act, d)
                finally:
                    process.kill()

        return run

    acts = {
        "open WRONLY": lambda d: use(at(d, "x"), os.O_WRONLY),
        "open RDWR": lambda d: use(at(d, "x"), os.O_RDWR),
        "open RDONLY": lambda d: os.close(os.open(at(d, "x"), os.O_RDONLY)),
        "open TRUNC": lambda d: use(at(d, "x"), os.O_RDONLY | os.O_TRUNC),
        "truncate": lambda d: os.truncate(at(d, "x"), 5),
        "unlink": lambda d: os.unlink(at(d, "x")),
        "rename over": lambda d: (calls.make("file", at(d, "y")), os.rename(at(d, "y"), at(d, "x")))[1],
        "chmod": lambda d: os.chmod(at(d, "x"), 0o700),
    }
    for name, act in acts.items():
        yield Case(f"{name} of a program that runs", program, running(act))

    def execute(d):
        return subprocess.run([at(d, "x"), "0"], check=False).returncode

    for mode, (who, user) in itertools.product([0o755, 0o700, 0o644, 0o111, 0o100, 0o010, 0o001, 0], USERS.items()):
        yield Case(f"execute a program {mode:o} by {who}", lambda d, m=mode: program(d, m, (2001, 2001)), execute, user)

    def executed_while_written(d):
        with calls.opened(at(d, "x"), os.O_WRONLY):
            return calls.in_child(lambda: os.execv(at(d, "x"), ["x", "0"]))

    yield Case("execute a program that is open for writing", program, executed_while_written)

    def made(d):
        program(d)
        return subprocess.run([at(d, "x"), "0"], check=False).returncode

    yield Case("execute a program that was just written", object_of("none"), made)

    def script(d):
        with calls.opened(at(d, "s"), os.O_CREAT | os.O_WRONLY, 0o755) as fd:
            os.write(fd, b"#!/bin/sh\nexit 7\n")
        return subprocess.run([at(d, "s")], check=False).returncode

    yield Case("execute a script that was just written", object_of("none"), script)

    def effective(d):
        shutil.copy("/usr/bin/id", at(d, "x"))
        os.chown(at(d, "x"), 2001, 2777)
        os.chmod(at(d, "x"), 0o6755)

    for who, user in USERS.items():

        def identify(d, user=user):
            with calls.as_user(calls.ROOT):
                return (
                    subprocess.run([at(d, "x"), "-u"], check=False, capture_output=True, user=user[0], group=user[1], extra_groups=user[2]).stdout,
                    subprocess.run([at(d, "x"), "-g"], check=False, capture_output=True, user=user[0], group=user[1], extra_groups=user[2]).stdout,
                )

        yield Case(f"execute a program 6755 by {who}", effective, identify)
    for kind in ("dir", "fifo", "char", "none", "file", "dangling", "loop"):
        yield Case(f"execute a {kind}", object_of(kind, 0o755), lambda d: calls.in_child(lambda: os.execv(at(d, "x"), ["x"])))


def descriptors():
    def appended(d):
        with calls.opened(at(d, "x"), os.O_RDWR | os.O_APPEND) as fd:
            return [
                os.pwrite(fd, b"abc", 1),
                os.write(fd, b"def"),
                os.lseek(fd, 0, os.SEEK_CUR),
                os.pread(fd, 100, 0),
                os.ftruncate(fd, 2),
                os.write(fd, b"ghi"),
                os.pread(fd, 100, 0),
            ]

    yield Case("O_APPEND with pwrite and truncate", object_of("file"), appended)

    def set_append(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            said = [
                os.write(fd, b"ab"),
                calls.set_flags(fd, os.O_APPEND),
                os.write(fd, b"cd"),
                calls.set_flags(fd, 0),
                os.write(fd, b"ef"),
                os.pwrite(fd, b"gh", 0),
            ]
            return said + [os.pread(fd, 100, 0)]

    yield Case("O_APPEND set and taken back", object_of("file"), set_append)

    def shared_position(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd, calls.opened(at(d, "x"), os.O_RDWR) as other:
            copy = os.dup(fd)
            said = [os.read(fd, 2), os.read(copy, 2), os.read(other, 2), os.write(other, b"Z"), os.read(fd, 3)]
            os.close(copy)
            return said

    yield Case("positions of copies and of other descriptors", object_of("file"), shared_position)
    for flag in (os.O_SYNC, os.O_DSYNC, os.O_DIRECT, os.O_NONBLOCK, os.O_ASYNC, os.O_NOCTTY, 0o40000000, 0x20000000):
        yield Case(f"open with {flag:#o}", object_of("file"), lambda d, f=flag: calls.outcome(os.close, os.open(at(d, "x"), os.O_RDWR | f)))

    def path_only(d):
        with calls.opened(at(d, "x"), os.O_PATH) as fd:
            return [
                calls.outcome(os.read, fd, 1),
                calls.outcome(os.fchmod, fd, 0o600),
                calls.outcome(os.fchown, fd, 1, 1),
                oct(os.fstat(fd).st_mode),
                calls.outcome(os.fsync, fd),
                calls.outcome(calls.linkat, "", at(d, "new"), calls.AT_EMPTY_PATH, fd),
                calls.outcome(os.setxattr, fd, "user.a", b"1"),
                calls.outcome(lambda: os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDWR))),
            ]

    for kind in KINDS[:-2]:
        yield Case(f"O_PATH of a {kind}", object_of(kind, 0o600), path_only)

    def fifo(d):
        reader = os.open(at(d, "x"), os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(at(d, "x"), os.O_WRONLY)
        os.write(writer, b"through")
        said = os.read(reader, 100), os.fstat(reader).st_size
        os.close(writer)
        os.close(reader)
        return said

    yield Case("a named pipe carries bytes", object_of("fifo"), fifo, times=False)
    for kind in ("file", "dir", "fifo", "char"):
        yield Case(
            f"fsync and fdatasync of a {kind}",
            object_of(kind),
            lambda d: [
                (calls.outcome(os.fsync, fd), calls.outcome(os.fdatasync, fd), os.close(fd)) for fd in [os.open(at(d, "x"), os.O_RDONLY | os.O_NONBLOCK)]
            ],
        )


FAMILIES = {"open flags": flags, "open permissions": permissions, "programs": programs, "descriptors": descriptors}
