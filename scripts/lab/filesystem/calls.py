"""System calls that Python does not have, users on whose behalf calls are made, and outcomes that can be compared."""

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
import struct

AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = -100, 0x100, 0x400, 0x1000
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
KEEP_SIZE, PUNCH_HOLE, COLLAPSE_RANGE, ZERO_RANGE, INSERT_RANGE, UNSHARE_RANGE = 1, 2, 8, 0x10, 0x20, 0x40

ROOT = (0, 0, ())
OWNER = (2001, 2001, ())
MEMBER = (2002, 2002, (2001,))  # of the owner's group
OTHER = (2003, 2003, ())
USERS = {"root": ROOT, "owner": OWNER, "member": MEMBER, "other": OTHER}

_libc = ctypes.CDLL(None, use_errno=True)
for _name in ("lseek", "telldir", "copy_file_range"):
    getattr(_libc, _name).restype = ctypes.c_int64
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc.lseek.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int]


def libc(name, *arguments):
    result = getattr(_libc, name)(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def raw(path):
    return os.fsencode(path)


def renameat2(a, b, flags):
    libc("renameat2", AT_FDCWD, raw(a), AT_FDCWD, raw(b), flags)


def linkat(a, b, flags, fd=AT_FDCWD):
    libc("linkat", fd, raw(a), AT_FDCWD, raw(b), flags)


def utimensat(path, accessed, modified, flags=0):
    """Each time is (seconds, nanoseconds), or None for both at once."""
    times = None if accessed is None else struct.pack("qqqq", *accessed, *modified)
    libc("utimensat", AT_FDCWD, raw(path), times, flags)


def fallocate(fd, mode, offset, length):
    libc("fallocate", fd, mode, offset, length)


def lseek(fd, offset, whence):
    return libc("lseek", fd, offset, whence)


def copy_file_range(a, at_a, b, at_b, count, flags=0):
    offsets = [None if at is None else ctypes.byref(ctypes.c_int64(at)) for at in (at_a, at_b)]
    return libc("copy_file_range", a, offsets[0], b, offsets[1], ctypes.c_size_t(count), flags)


def faccessat2(path, mode, flags):
    libc("syscall", 439, AT_FDCWD, raw(path), mode, flags)


@contextlib.contextmanager
def as_user(user):
    """The real user changes too, for access(2); the saved one stays root, so that there is a way back."""
    uid, gid, groups = user
    if uid == 0:
        yield
        return
    os.setgroups(groups)
    os.setresgid(gid, gid, 0)
    os.setresuid(uid, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups([])


def outcome(function, *arguments):
    """What the function returned, or the name of the error."""
    try:
        return function(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))


@contextlib.contextmanager
def opened(path, flags, mode=0o644):
    fd = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield fd
    finally:
        os.close(fd)


def in_child(function):
    """What a process of its own gets: its outcome, or the signal that ended it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, repr(outcome(function)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read().decode()
    _, status = os.waitpid(pid, 0)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else answer


KINDS = ["file", "dir", "fifo", "socket", "char", "block", "link", "dangling"]


def make(kind, path, mode=0o644, owner=OWNER, content=b"content"):
    """An object of this kind; a link points to a file beside it that is made as well."""
    uid, gid = owner[:2]
    if kind == "none":
        return
    if kind == "file":
        with opened(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY) as fd:
            os.write(fd, content)
    elif kind in ("dir", "full"):
        os.mkdir(path)
        if kind == "full":
            os.mkdir(os.path.join(path, "inner"))
    elif kind == "link":
        make("file", path + ".target", mode, owner, content)
        os.symlink(os.path.basename(path) + ".target", path)
    elif kind == "dirlink":
        make("dir", path + ".target", mode, owner)
        os.symlink(os.path.basename(path) + ".target", path)
    elif kind == "dangling":
        os.symlink("nowhere", path)
    elif kind == "loop":
        os.symlink(os.path.basename(path), path)
    else:
        types = {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK, "char": stat.S_IFCHR, "block": stat.S_IFBLK}
        os.mknod(path, types[kind] | 0o600, os.makedev(1, 3) if kind == "char" else os.makedev(240, 77) if kind == "block" else 0)
    os.lchown(path, uid, gid)
    if kind not in ("link", "dirlink", "dangling", "loop"):
        os.chmod(path, mode)


def fcntl_flags(fd):
    return fcntl.fcntl(fd, fcntl.F_GETFL)


def set_flags(fd, flags):
    return fcntl.fcntl(fd, fcntl.F_SETFL, flags)
