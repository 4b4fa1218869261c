"""mkdir, mkfifo, mknod, symlink, link, O_CREAT, O_TMPFILE and bind: what is made, with which mode and group, and who may."""

import itertools
import os
import socket
import stat

import calls
from calls import KINDS, OWNER, USERS
from case import Case, at, object_of, steps


def create(path, mode):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))


def bind(path, _mode):
    """Names of sockets are short: it is bound from within the directory."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY)
    os.chdir(os.path.dirname(path))
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.basename(path))
    finally:
        os.fchdir(here)
        os.close(here)


def nameless(path, mode):
    """A file without a name, which gets one."""
    fd = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, mode)
    try:
        calls.linkat(f"/proc/self/fd/{fd}", path, calls.AT_SYMLINK_FOLLOW)
    finally:
        os.close(fd)


MAKERS = {
    "create": create,
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "bind": bind,
    "nameless": nameless,
    "mknod file": lambda p, m: os.mknod(p, m | stat.S_IFREG),
    "mknod char": lambda p, m: os.mknod(p, m | stat.S_IFCHR, os.makedev(5, 300)),
    "mknod block": lambda p, m: os.mknod(p, m | stat.S_IFBLK, os.makedev(4000, 70_000)),
    "mknod whiteout": lambda p, m: os.mknod(p, m | stat.S_IFCHR, 0),
    "symlink": lambda p, m: os.symlink("target", p),
    "link": lambda p, m: os.link(os.path.join(os.path.dirname(p), "..", "y"), p),
}


def parent(mode, owner):
    def setup(d):
        os.mkdir(at(d, "x"))
        os.chown(at(d, "x"), *owner)
        os.chmod(at(d, "x"), mode)
        calls.make("file", at(d, "y"), 0o666, OWNER)

    return setup


def making():
    parents = [
        (0o755, (2001, 2001)),
        (0o775, (2001, 2001)),
        (0o2775, (2001, 2001)),
        (0o2777, (2777, 2777)),
        (0o3777, (0, 2002)),
        (0o555, (2001, 2001)),
        (0o666, (2001, 2001)),
    ]
    for (name, maker), (mode, owner), (who, user), wanted, umask in itertools.product(
        MAKERS.items(), parents, USERS.items(), [0o777, 0o2755, 0o7777, 0], [0, 0o027]
    ):
        if (name in ("symlink", "link", "bind") and wanted != 0o777) or (umask == 0 and wanted == 0):
            continue
        yield Case(
            f"{name} {wanted:o} below a directory {mode:o} of {owner} by {who}, umask {umask:o}",
            parent(mode, owner),
            lambda d, f=maker, m=wanted: f(at(d, "x/new"), m),
            user,
            umask,
        )


def making_over():
    """A name that is taken."""
    for (name, maker), kind in itertools.product(MAKERS.items(), KINDS + ["full", "dirlink", "loop"]):

        def setup(d, k=kind):
            os.mkdir(at(d, "x"))
            calls.make(k, at(d, "x/new"))
            calls.make("file", at(d, "y"))

        yield Case(f"{name} over a {kind}", setup, lambda d, f=maker: f(at(d, "x/new"), 0o666))


def link():
    for kind, (who, user), mode in itertools.product(KINDS + ["dirlink", "loop", "none"], USERS.items(), [0o644, 0o666, 0o4755]):
        yield Case(
            f"link to a {kind} {mode:o} by {who}",
            lambda d, k=kind, m=mode: (os.chmod(d, 0o777), calls.make(k, at(d, "x"), m)),
            lambda d: os.link(at(d, "x"), at(d, "new")),
            user,
        )
        yield Case(
            f"link through a {kind} {mode:o} by {who}",
            lambda d, k=kind, m=mode: (os.chmod(d, 0o777), calls.make(k, at(d, "x"), m)),
            lambda d: calls.linkat(at(d, "x"), at(d, "new"), calls.AT_SYMLINK_FOLLOW),
            user,
        )

    def many(d):
        for i in range(300):
            os.link(at(d, "x"), at(d, f"l{i}"))
        os.unlink(at(d, "x"))
        return os.stat(at(d, "l7")).st_nlink

    yield Case("300 links", object_of("file"), many)

    def after_the_last_name(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            os.unlink(at(d, "x"))
            return calls.outcome(calls.linkat, f"/proc/self/fd/{fd}", at(d, "new"), calls.AT_SYMLINK_FOLLOW)

    yield Case("link to a file that lost its last name", object_of("file"), after_the_last_name)


def symlink():
    for length in (1, 59, 60, 255, 256, 1000, 4000, 4094, 4095, 4096, 5000):
        yield Case(f"symlink to {length} bytes", object_of("none"), lambda d, n=length: os.symlink("t" * n, at(d, "x")))
        yield Case(
            f"symlink to {length} bytes is followed",
            object_of("file"),
            lambda d, n=length: steps(lambda d: os.symlink("./" * ((n - 1) // 2) + "x", at(d, "new")), lambda d: os.stat(at(d, "new")).st_size)(d),
        )
    for target in ("", "/", ".", "x", "x/", "x/.", "//x", "\udcff\udcfe", "/no/where"):
        for kind in ("file", "dir"):

            def use(d, t=target):
                return (
                    steps(
                        lambda d: os.symlink(t, at(d, "new")),
                        lambda d: os.readlink(at(d, "new")),
                        lambda d: sorted(os.listdir(at(d, "new"))),
                        lambda d: os.close(os.open(at(d, "new"), os.O_RDWR)),
                        lambda d: os.mkdir(at(d, "new/sub")),
                        lambda d: os.unlink(at(d, "new/")),
                        lambda d: os.rmdir(at(d, "new")),
                    )(d)
                    if t != "/"
                    else os.symlink(t, at(d, "new"))
                )

            yield Case(f"symlink to '{target!a}' beside a {kind}", object_of(kind), use, times=False)
    for count in (1, 39, 40, 41, 50):

        def chain(d, n=count):
            calls.make("file", at(d, "x"))
            for i in range(n):
                os.symlink(f"l{i - 1}" if i else "x", at(d, f"l{i}"))

        yield Case(f"a chain of {count} symbolic links", chain, lambda d, n=count: os.stat(at(d, f"l{n - 1}")).st_size)
    for kind in KINDS:
        yield Case(f"readlink of a {kind}", object_of(kind), lambda d: os.readlink(at(d, "x")))
    for size in (0, 1, 5, 100):
        yield Case(
            f"readlink into {size} bytes",
            object_of("link"),
            lambda d, n=size: calls.libc("readlink", calls.raw(at(d, "x")), calls.ctypes.create_string_buffer(101), n),
        )


def tmpfile():
    for flags, mode, (who, user), parent_mode in itertools.product(
        [os.O_RDWR, os.O_WRONLY, os.O_RDONLY, os.O_RDWR | os.O_EXCL], [0o600, 0o2755, 0], USERS.items(), [0o777, 0o2777, 0o555]
    ):

        def make(d, f=flags, m=mode):
            fd = os.open(at(d, "x"), os.O_TMPFILE | f, m)
            try:
                wrote = calls.outcome(os.write, fd, b"hello")
                about = os.fstat(fd)
                linked = calls.outcome(calls.linkat, f"/proc/self/fd/{fd}", at(d, "x/new"), calls.AT_SYMLINK_FOLLOW)
                again = calls.outcome(calls.linkat, f"/proc/self/fd/{fd}", at(d, "x/newer"), calls.AT_SYMLINK_FOLLOW)
                return wrote, oct(about.st_mode), about.st_uid, about.st_gid, about.st_nlink, linked, again, os.fstat(fd).st_nlink
            finally:
                os.close(fd)

        yield Case(f"O_TMPFILE with {flags:o}, {mode:o} below {parent_mode:o} by {who}", object_of("dir", parent_mode, (2001, 2777, ())), make, user)
    for kind in KINDS:
        yield Case(f"O_TMPFILE below a {kind}", object_of(kind), lambda d: os.close(os.open(at(d, "x"), os.O_TMPFILE | os.O_RDWR)))


FAMILIES = {"making": making, "making over": making_over, "link": link, "symlink": symlink, "tmpfile": tmpfile}
