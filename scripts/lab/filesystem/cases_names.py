"""rename, unlink, rmdir: what may take whose place, who may take a name away, and what the directories count."""

import itertools
import os

import calls
from calls import EXCHANGE, NOREPLACE, OWNER, USERS, WHITEOUT
from case import Case, at, object_of, steps

THINGS = ["file", "dir", "full", "link", "dirlink", "dangling", "fifo", "char", "none"]


def rename():
    flags = {"": 0, " NOREPLACE": NOREPLACE, " EXCHANGE": EXCHANGE, " NOREPLACE EXCHANGE": NOREPLACE | EXCHANGE}
    for source, target, (said, flag), other in itertools.product(THINGS, THINGS, flags.items(), [False, True]):

        def setup(d, s=source, t=target):
            os.mkdir(at(d, "other"))
            for where in ("x", "y"):
                os.mkdir(at(d, where))
            calls.make(s, at(d, "x/source"), 0o644, OWNER, b"source")
            for where in ("x", "y"):
                calls.make(t, at(d, where + "/target"), 0o755, calls.OTHER, b"target")

        yield Case(
            f"rename a {source} over a {target}{said}{' elsewhere' if other else ''}",
            setup,
            lambda d, f=flag, o=other: calls.renameat2(at(d, "x/source"), at(d, "y/target" if o else "x/target"), f),
        )

    def linked(d):
        os.mkdir(at(d, "d"))
        calls.make("file", at(d, "x"))
        os.link(at(d, "x"), at(d, "d/y"))
        os.link(at(d, "x"), at(d, "z"))

    for (said, flag), to in itertools.product(flags.items(), ["x", "z", "d/y"]):
        yield Case(f"rename x over {to}, another name of it{said}", linked, lambda d, f=flag, t=to: calls.renameat2(at(d, "x"), at(d, t), f))
    pairs = [
        ("d", "d/e"),
        ("d", "d/e/f/g"),
        ("d/e", "d"),
        ("d/e/f", "d"),
        ("d", "d"),
        ("d", "d/."),
        ("d/.", "x"),
        ("d/..", "x"),
        ("d", ".."),
        (".", "x"),
        ("d/e", "d/e/.."),
        ("d/", "x"),
        ("d/", "x/"),
        ("d", "x/"),
        ("file", "x/"),
        ("file/", "x"),
        ("file", "file/"),
        ("d/e/f", "d/x"),
        ("d/x", "d/e/f"),
        ("no", "x"),
        ("no", "no"),
        ("d/e/", "file"),
        ("l", "x"),
        ("l/", "x"),
        ("d", "l"),
        ("d", "l/"),
        ("file", "l/"),
        ("l/e", "d/x"),
        ("d/e", "l/e"),
        ("", "x"),
        ("d", ""),
    ]

    def nested(d):
        os.makedirs(at(d, "d/e/f"))
        calls.make("file", at(d, "file"))
        os.symlink("d", at(d, "l"))

    for (a, b), (said, flag) in itertools.product(pairs, flags.items()):
        yield Case(f"rename '{a}' to '{b}'{said}", nested, lambda d, a=a, b=b, f=flag: calls.renameat2(at(d, a) if a else "", at(d, b) if b else "", f))
    for flag in (8, 16, 0x80000000, WHITEOUT | EXCHANGE, WHITEOUT):
        yield Case(f"rename with flags {flag:#x}", nested, lambda d, f=flag: calls.renameat2(at(d, "file"), at(d, "new"), f & 0xFFFFFFFF))


def below(directory, entry, kind):
    """x/entry in a directory with this mode and owner, and y, where anybody may write."""
    mode, owner = directory

    def setup(d):
        for where in ("x", "y"):
            os.mkdir(at(d, where))
        calls.make(kind, at(d, "x/entry"), 0o755, entry)
        calls.make(kind, at(d, "y/entry"), 0o755, entry)
        os.chmod(at(d, "y"), 0o777)
        os.chown(at(d, "x"), owner, owner)
        os.chmod(at(d, "x"), mode)

    return setup


def removal():
    ways = {
        "unlink": lambda d: os.unlink(at(d, "x/entry")),
        "rmdir": lambda d: os.rmdir(at(d, "x/entry")),
        "rename out": lambda d: os.rename(at(d, "x/entry"), at(d, "y/new")),
        "rename within": lambda d: os.rename(at(d, "x/entry"), at(d, "x/new")),
        "rename over it": lambda d: os.rename(at(d, "y/entry"), at(d, "x/entry")),
        "rename in": lambda d: os.rename(at(d, "y/entry"), at(d, "x/new")),
        "exchange": lambda d: calls.renameat2(at(d, "x/entry"), at(d, "y/entry"), EXCHANGE),
    }
    directories = [(mode, owner) for mode in (0o777, 0o1777, 0o755, 0o1755, 0o333, 0o666, 0o1775) for owner in (0, 2001, 2003)]
    entries = [calls.ROOT, OWNER, calls.OTHER]
    for (way, act), directory, entry, (who, user), kind in itertools.product(ways.items(), directories, entries, USERS.items(), ["file", "dir"]):
        if (way == "unlink" and kind == "dir") or (way == "rmdir" and kind == "file") or (who == "root" and directory[0] != 0o1777):
            continue
        yield Case(f"{way}, a {kind} of {entry[0]} in a directory {directory[0]:o} of {directory[1]}, by {who}", below(directory, entry, kind), act, user)


def remove():
    for kind in THINGS + ["socket", "block", "loop"]:
        yield Case(f"unlink a {kind}", object_of(kind), lambda d: os.unlink(at(d, "x")))
        yield Case(f"rmdir a {kind}", object_of(kind), lambda d: os.rmdir(at(d, "x")))
        yield Case(f"unlink a {kind} with a slash", object_of(kind), lambda d: os.unlink(at(d, "x/")))
        yield Case(f"rmdir a {kind} with a slash", object_of(kind), lambda d: os.rmdir(at(d, "x/")))
        yield Case(
            f"a {kind} with two names loses one",
            lambda d, k=kind: (calls.make(k, at(d, "x")), calls.outcome(os.link, at(d, "x"), at(d, "y"))),
            lambda d: os.unlink(at(d, "x")),
        )
    for path in (".", "..", "x/.", "x/..", "x/inner/..", "x/inner/.", "x//", "x/inner"):
        yield Case(f"rmdir {path}", object_of("full"), lambda d, p=path: os.rmdir(at(d, p)))
        yield Case(f"unlink {path}", object_of("full"), lambda d, p=path: os.unlink(at(d, p)))


def counts():
    """How many links directories have while others come and go."""

    def grow(d):
        told = []
        for i in range(5):
            os.mkdir(at(d, f"x/{i}"))
            told.append(os.stat(at(d, "x")).st_nlink)
        os.rename(at(d, "x/0"), at(d, "moved"))
        told.append((os.stat(at(d, "x")).st_nlink, os.stat(d).st_nlink))
        os.rename(at(d, "x/1"), at(d, "x/2"))
        told.append(os.stat(at(d, "x")).st_nlink)
        calls.make("file", at(d, "x/file"))
        calls.renameat2(at(d, "x/3"), at(d, "x/file"), EXCHANGE)
        told.append(os.stat(at(d, "x")).st_nlink)
        calls.renameat2(at(d, "x/2"), at(d, "x/3"), EXCHANGE)
        calls.make("file", at(d, "other"))
        calls.renameat2(at(d, "x/4"), at(d, "other"), EXCHANGE)
        told.append((os.stat(at(d, "x")).st_nlink, os.stat(d).st_nlink))
        return told

    yield Case("subdirectories made, moved, replaced and exchanged", object_of("dir"), grow)

    def open_removed(d):
        with calls.opened(at(d, "x"), os.O_RDONLY) as fd:
            os.rmdir(at(d, "x"))
            return [
                os.fstat(fd).st_nlink,
                os.listdir(fd),
                calls.outcome(lambda: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=fd)),
                calls.outcome(lambda: os.mkdir("new", dir_fd=fd)),
                calls.outcome(lambda: os.stat("..", dir_fd=fd).st_nlink > 0),
                calls.outcome(lambda: os.stat(".", dir_fd=fd).st_nlink),
                calls.outcome(os.fchmod, fd, 0o700),
                os.fstat(fd).st_mode,
            ]

    yield Case("a directory that is removed while it is open", object_of("dir"), open_removed)

    def inside_removed(d):
        def run():
            os.chdir(at(d, "x"))
            os.rmdir(at(d, "x"))
            return steps(
                lambda d: os.getcwd(),
                lambda d: os.listdir("."),
                lambda d: os.mkdir("y"),
                lambda d: os.open("y", os.O_CREAT | os.O_WRONLY),
                lambda d: os.symlink("a", "b"),
                lambda d: os.link(at(d, "f"), "b"),
                lambda d: os.rename(at(d, "f"), "b"),
                lambda d: os.stat("..").st_mode,
                lambda d: os.stat("y"),
                lambda d: os.chdir(".."),
            )(d)

        return calls.in_child(run)

    yield Case("a process in a directory that is removed", lambda d: (calls.make("dir", at(d, "x")), calls.make("file", at(d, "f"))), inside_removed)

    def renamed_open(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            os.rename(at(d, "x"), at(d, "y"))
            os.pwrite(fd, b"new", 0)
            calls.make("file", at(d, "x"))
            return os.fstat(fd).st_nlink, os.stat(at(d, "y")).st_ino == os.fstat(fd).st_ino

    yield Case("a file that is renamed while it is open", object_of("file"), renamed_open)

    def replaced_open(d):
        calls.make("file", at(d, "y"), content=b"other")
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            os.rename(at(d, "y"), at(d, "x"))
            os.pwrite(fd, b"new", 4)
            os.ftruncate(fd, 5000)
            os.fchmod(fd, 0o600)
            about = os.fstat(fd)
            return about.st_nlink, about.st_size, oct(about.st_mode), os.pread(fd, 100, 0)

    yield Case("a file that is replaced while it is open", object_of("file"), replaced_open)

    def unlinked_open(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            os.unlink(at(d, "x"))
            os.pwrite(fd, b"new", 4)
            os.fsync(fd)
            os.fchown(fd, 5, 6)
            os.setxattr(fd, "user.a", b"1")
            about = os.fstat(fd)
            with calls.opened(f"/proc/self/fd/{fd}", os.O_RDONLY) as again:
                return about.st_nlink, about.st_uid, os.pread(fd, 100, 0), os.pread(again, 100, 0), os.getxattr(fd, "user.a")

    yield Case("a file that is removed while it is open", object_of("file"), unlinked_open)


FAMILIES = {"rename": rename, "removal": removal, "remove": remove, "counts": counts}
