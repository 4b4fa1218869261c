"""Paths that lead nowhere, for every call that takes one; and what file systems need not know but must refuse properly."""

import fcntl
import itertools
import os
import struct

import calls
from calls import OTHER
from case import Case, at

CALLS = {
    "stat": os.stat,
    "lstat": os.lstat,
    "chmod": lambda p: os.chmod(p, 0o600),
    "chown": lambda p: os.chown(p, 2003, 2003),
    "lchown": lambda p: os.lchown(p, 2003, 2003),
    "utime": lambda p: os.utime(p, (1, 1)),
    "truncate": lambda p: os.truncate(p, 3),
    "access": lambda p: calls.faccessat2(p, 4, 0),
    "open": lambda p: os.close(os.open(p, os.O_RDONLY)),
    "open RDWR": lambda p: os.close(os.open(p, os.O_RDWR)),
    "create": lambda p: os.close(os.open(p, os.O_CREAT | os.O_WRONLY, 0o600)),
    "create exclusively": lambda p: os.close(os.open(p, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)),
    "open directory": lambda p: os.close(os.open(p, os.O_DIRECTORY)),
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "mknod": os.mknod,
    "symlink": lambda p: os.symlink("t", p),
    "readlink": os.readlink,
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "link from": lambda p: os.link(p, OUT[0] + "/out"),
    "link to": lambda p: os.link(OUT[0] + "/file", p),
    "rename from": lambda p: os.rename(p, OUT[0] + "/out"),
    "rename to": lambda p: os.rename(OUT[0] + "/file", p),
    "rename a directory to": lambda p: os.rename(OUT[0] + "/empty", p),
    "exchange": lambda p: calls.renameat2(OUT[0] + "/file", p, calls.EXCHANGE),
    "listdir": lambda p: sorted(os.listdir(p), key=os.fsencode)[:3],
    "chdir": lambda p: calls.in_child(lambda: os.chdir(p)),
    "setxattr": lambda p: os.setxattr(p, "user.a", b"1"),
    "getxattr": lambda p: os.getxattr(p, "user.a"),
    "listxattr": os.listxattr,
    "statvfs": lambda p: os.statvfs(p).f_namemax,
    "execve": lambda p: calls.in_child(lambda: os.execv(p, ["x"])),
}
OUT = [""]
LONG = "n" * 255


def setup(d):
    calls.make("dir", at(d, "dir"))
    calls.make("file", at(d, "dir/file"), 0o666)
    calls.make("dir", at(d, "dir/sub"))
    calls.make("file", at(d, "file"), 0o666)
    calls.make("dir", at(d, "empty"))
    calls.make("dir", at(d, "closed"))
    calls.make("file", at(d, "closed/file"), 0o666)
    os.chmod(at(d, "closed"), 0o644)
    os.symlink("dir", at(d, "link"))
    os.symlink("file", at(d, "filelink"))
    os.symlink("loop", at(d, "loop"))
    os.symlink("b", at(d, "a"))
    os.symlink("a", at(d, "b"))
    os.symlink("nowhere", at(d, "dangling"))
    os.symlink("dir/new", at(d, "tonew"))
    calls.make("fifo", at(d, "fifo"))
    calls.make("file", at(d, LONG))
    os.chmod(d, 0o777)


def paths(d):
    yield from (
        "no",
        "no/x",
        "file/x",
        "file/",
        "file/.",
        "file/..",
        "fifo/x",
        "dir/",
        "dir/.",
        "dir/..",
        "dir/../dir/file",
        ".",
        "..",
        "link",
        "link/",
        "link/.",
        "link/file",
        "filelink",
        "filelink/",
        "filelink/x",
        "loop",
        "loop/",
        "loop/x",
        "a",
        "dangling",
        "dangling/",
        "dangling/x",
        "tonew",
        "tonew/",
        "closed/file",
        "closed/no",
        "closed/../file",
        "closed",
        "dir//file",
        "//dir",
        LONG,
        LONG + "n",
        LONG + "n/x",
        "dir/" + LONG,
        "dir/" + LONG + "n",
        "no/" + LONG + "n",
        "\udcff\udc80",
        "\u00e4\U0001f600",
        "new\nline",
        " ",
        "-",
        "dir/...",
        "x" * 254,
    )
    for length in (4094, 4095, 4096, 5000):
        yield ("length", length, "dir/file")
        yield ("length", length, "dir/new")
    yield ""


def path_of(d, path):
    if not path:
        return ""
    if isinstance(path, tuple):
        _, length, end = path
        room = length - len(d) - 1 - len(end)
        return d + "/" + "./" * (room // 2) + "/" * (room % 2) + end
    return d + "/" + path


def path_errors():
    for (name, call), path, (who, user) in itertools.product(CALLS.items(), list(paths(".")), {"root": calls.ROOT, "other": OTHER}.items()):

        def act(d, c=call, p=path):
            OUT[0] = d
            return str(calls.outcome(c, path_of(d, p))) if c not in (os.stat, os.lstat) else calls.outcome(lambda: oct(c(path_of(d, p)).st_mode))

        shown = path if isinstance(path, str) else f"{path[1]} bytes to {path[2]}"
        yield Case(f"{name} {shown[:20]!a} ({len(shown)}) by {who}", setup, act, user, times=False)


def controls():
    def on(kind, function):
        def act(d):
            with calls.opened(at(d, kind), os.O_RDONLY) as fd:
                return function(fd, d)

        return act

    requests = {"FIONREAD": (0x541B, b"\0" * 8), "FIGETBSZ": (2, b"\0" * 4), "TCGETS": (0x5401, b"\0" * 60), "FICLONE": (0x40049409, None)}
    for kind, (name, (request, buffer)) in itertools.product(["file", "dir"], requests.items()):
        yield Case(
            f"ioctl {name} on a {kind}",
            setup,
            on(kind, lambda fd, d, r=request, b=buffer: str(fcntl.ioctl(fd, r, b if b is not None else os.open(at(d, "file"), os.O_RDONLY)))),
            times=False,
        )
    for kind, advice in itertools.product(["file", "dir"], range(7)):
        yield Case(f"posix_fadvise {advice} on a {kind}", setup, on(kind, lambda fd, d, a=advice: os.posix_fadvise(fd, 0, 100, a)), times=False)
    yield Case("syncfs", setup, on("file", lambda fd, d: calls.libc("syncfs", fd)), times=False)
    yield Case(
        "sync_file_range",
        setup,
        on("file", lambda fd, d: calls.libc("sync_file_range", fd, calls.ctypes.c_int64(0), calls.ctypes.c_int64(100), 7)),
        times=False,
    )
    yield Case("readahead", setup, on("file", lambda fd, d: calls.libc("readahead", fd, calls.ctypes.c_int64(0), 100)), times=False)
    for command, argument in (
        (fcntl.F_SETLEASE, fcntl.F_RDLCK),
        (fcntl.F_SETLEASE, fcntl.F_UNLCK),
        (fcntl.F_GETLEASE, 0),
        (fcntl.F_SETOWN, 0),
        (fcntl.F_NOTIFY, 0),
    ):
        yield Case(f"fcntl {command} {argument}", setup, on("file", lambda fd, d, c=command, a=argument: fcntl.fcntl(fd, c, a)), times=False)

    def handle(d):
        buffer = calls.ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
        mount_id = calls.ctypes.c_int()
        return calls.libc("name_to_handle_at", calls.AT_FDCWD, calls.raw(at(d, "file")), buffer, calls.ctypes.byref(mount_id), 0)

    yield Case("name_to_handle_at", setup, handle, times=False)


FAMILIES = {"paths": path_errors, "controls": controls}
