"""Extended attributes and access lists: names, sizes, flags, who may; what a list grants, and what is inherited from a directory's."""

import itertools
import os
import struct

import calls
from calls import KINDS, OWNER, USERS
from case import Case, at, object_of, steps

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
CREATE, REPLACE = 1, 2


def acl(text):
    """`u::rwx u:2003:r-- g::r-x m::rwx o::---` as the kernel has it."""
    tags = {("u", False): 1, ("u", True): 2, ("g", False): 4, ("g", True): 8, ("m", False): 0x10, ("o", False): 0x20}
    items = b""
    for item in text.split():
        tag, who, bits = item.split(":")
        permissions = sum(value for value, letter in ((4, "r"), (2, "w"), (1, "x")) if letter in bits)
        items += struct.pack("<HHI", tags[tag, bool(who)], permissions, int(who) if who else 0xFFFFFFFF)
    return struct.pack("<I", 2) + items


LISTS = [
    "u::rwx g::r-x o::r--",
    "u::rw- g::r-- o::---",
    "u::rwx u:2003:rwx g::--- m::rwx o::---",
    "u::rwx u:2003:rwx g::rwx m::r-- o::---",
    "u::--- u:2003:--- g::rwx g:2003:rwx m::rwx o::rwx",
    "u::rwx g::--- g:2002:rw- m::rw- o::rwx",
    "u::rwx g::r-- g:2001:-w- m::rwx o::---",
    "u::rwx u:2002:r-- u:2003:-w- g::rwx m::--- o::rwx",
    "u::rw- g::rw- m::r-- o::r--",
]
WRONG = [
    "",
    "u::rwx",
    "u::rwx g::r-x",
    "u::rwx g::r-x o::r-- o::r--",
    "u::rwx u:2003:rwx g::r-x o::r--",
    "u::rwx u:2003:rwx u:2003:r-- g::r-x m::rwx o::r--",
    "o::r-- g::r-x u::rwx",
    "u::rwx u:2004:rwx u:2003:r-- g::r-x m::rwx o::r--",
    "u::rwx g::r-x m::rwx m::rwx o::r--",
]


def attributes():
    names = [
        "user.a",
        "user." + "n" * 250,
        "user." + "n" * 251,
        "user.",
        "user",
        "trusted.a",
        "trusted.",
        "security.a",
        "security.selinux",
        "security.capability",
        "system.a",
        "other.a",
        "a",
        "",
        "user.\udcff",
        "user.a b\n",
        "system.posix_acl_other",
    ]
    for name, kind, (who, user), mode in itertools.product(names, ["file", "dir", "fifo", "link"], USERS.items(), [0o644, 0o666, 0o1777]):
        yield Case(
            f"an attribute {name[:20]!a} ({len(name)}) of a {kind} {mode:o} by {who}",
            object_of(kind, mode),
            steps(
                lambda d, n=name: os.getxattr(at(d, "x"), n, follow_symlinks=False),
                lambda d, n=name: os.setxattr(at(d, "x"), n, b"value", follow_symlinks=False),
                lambda d, n=name: os.getxattr(at(d, "x"), n, follow_symlinks=False),
                lambda d: sorted(os.listxattr(at(d, "x"), follow_symlinks=False)),
                lambda d, n=name: os.removexattr(at(d, "x"), n, follow_symlinks=False),
                lambda d, n=name: os.removexattr(at(d, "x"), n, follow_symlinks=False),
            ),
            user,
        )
    for kind in KINDS:
        yield Case(
            f"an attribute through a {kind}",
            object_of(kind),
            steps(
                lambda d: os.setxattr(at(d, "x"), "user.a", b"1"),
                lambda d: os.setxattr(at(d, "x"), "trusted.a", b"1"),
                lambda d: sorted(os.listxattr(at(d, "x"))),
                lambda d: os.getxattr(at(d, "x"), "trusted.a"),
            ),
        )
    for flags, exists in itertools.product([0, CREATE, REPLACE, CREATE | REPLACE, 4], [False, True]):
        yield Case(
            f"setxattr with flags {flags}, {'there' if exists else 'not there'}",
            lambda d, e=exists: (calls.make("file", at(d, "x")), os.setxattr(at(d, "x"), "user.a", b"old") if e else 0),
            steps(lambda d, f=flags: os.setxattr(at(d, "x"), "user.a", b"new", f)),
        )
    for size in (0, 1, 100, 1000, 3000, 4000, 65535, 65536, 65537, 100_000):
        yield Case(
            f"an attribute of {size} bytes",
            object_of("file"),
            steps(
                lambda d, n=size: os.setxattr(at(d, "x"), "user.a", b"v" * n),
                lambda d: len(os.getxattr(at(d, "x"), "user.a")),
                lambda d, n=size: os.setxattr(at(d, "x"), "user.a", b"w" * (n // 2)),
                lambda d: len(os.getxattr(at(d, "x"), "user.a")),
            ),
        )
    for room in (0, 1, 4, 5, 6, 100):

        def sizes(d, n=room):
            path, buffer = calls.raw(at(d, "x")), calls.ctypes.create_string_buffer(101)
            return [
                calls.outcome(calls.libc, "getxattr", path, b"user.a", buffer, n),
                calls.outcome(calls.libc, "listxattr", path, buffer, n),
                calls.outcome(calls.libc, "getxattr", path, b"user.no", buffer, n),
                buffer.raw,
            ]

        yield Case(f"getxattr and listxattr into {room} bytes", lambda d: (calls.make("file", at(d, "x")), os.setxattr(at(d, "x"), "user.a", b"value")), sizes)

    def many(d):
        for i in range(60):
            os.setxattr(at(d, "x"), f"user.{i}", b"v" * 20)
        for i in range(0, 60, 2):
            os.removexattr(at(d, "x"), f"user.{i}")
        return sorted(os.listxattr(at(d, "x")))

    yield Case("60 attributes, half of them removed", object_of("file"), many)

    def shared(d):
        os.setxattr(at(d, "x"), "user.a", b"1")
        os.link(at(d, "x"), at(d, "y"))
        os.rename(at(d, "x"), at(d, "z"))
        os.setxattr(at(d, "y"), "user.b", b"2")
        return sorted(os.listxattr(at(d, "z")))

    yield Case("attributes belong to the inode", object_of("file"), shared)
    for act_name, act in (
        ("write", lambda d: [(os.write(fd, b"x"), os.close(fd)) for fd in [os.open(at(d, "x"), os.O_WRONLY)]]),
        ("truncate", lambda d: os.truncate(at(d, "x"), 0)),
        ("chown", lambda d: os.chown(at(d, "x"), 2001, 2001)),
        ("chmod", lambda d: os.chmod(at(d, "x"), 0o600)),
        ("chown to another", lambda d: os.chown(at(d, "x"), 2003, 2003)),
    ):

        def capable(d):
            calls.make("file", at(d, "x"), 0o6777)
            os.setxattr(at(d, "x"), "security.capability", struct.pack("<IIIII", 0x02000001, 0x400, 0, 0, 0))

        for who in ("root", "owner"):
            yield Case(f"{act_name} of a file with capabilities by {who}", capable, act, USERS[who])


def lists():
    for text, name, kind, (who, user) in itertools.product(LISTS + WRONG, [ACCESS, DEFAULT], ["file", "dir", "link", "fifo"], USERS.items()):
        yield Case(
            f"{name[17:]} list '{text}' of a {kind} by {who}",
            object_of(kind, 0o6750),
            steps(
                lambda d, t=text, n=name: os.setxattr(at(d, "x"), n, acl(t), follow_symlinks=False),
                lambda d, n=name: os.getxattr(at(d, "x"), n, follow_symlinks=False),
                lambda d: oct(os.lstat(at(d, "x")).st_mode),
                lambda d, n=name: os.removexattr(at(d, "x"), n, follow_symlinks=False),
                lambda d: oct(os.lstat(at(d, "x")).st_mode),
            ),
            user,
        )
    for raw_value in (b"", b"\2\0\0", b"\2\0\0\0", b"\1\0\0\0" + acl(LISTS[0])[4:], acl(LISTS[0])[:-1], acl(LISTS[0]).replace(b"\1\0\7\0", b"\1\0\x17\0")):
        for name in (ACCESS, DEFAULT):
            yield Case(
                f"{name[17:]} list of {len(raw_value)} odd bytes {raw_value[:6]!r}",
                object_of("dir"),
                steps(lambda d, v=raw_value, n=name: os.setxattr(at(d, "x"), n, v), lambda d, n=name: os.getxattr(at(d, "x"), n)),
            )


def granted():
    """What lists allow, on files and on directories."""
    users = {**USERS, "member of 2003": (2005, 2005, (2003,)), "member of two": (2006, 2002, (2001,))}
    for text, (who, user), owner in itertools.product(LISTS, users.items(), [OWNER, calls.ROOT]):

        def setup(d, t=text, o=owner):
            calls.make("file", at(d, "x"), 0o777, o)
            calls.make("dir", at(d, "y"), 0o777, o)
            calls.make("file", at(d, "y/z"), 0o666)
            os.setxattr(at(d, "x"), ACCESS, acl(t))
            os.setxattr(at(d, "y"), ACCESS, acl(t))

        def use(d):
            said = [calls.outcome(lambda f=flags: os.close(os.open(at(d, "x"), f))) for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)]
            said += [os.access(at(d, "x"), wanted) for wanted in range(8)]
            said += [
                calls.outcome(lambda: sorted(os.listdir(at(d, "y")))),
                calls.outcome(lambda: os.stat(at(d, "y/z")).st_size),
                calls.outcome(os.mkdir, at(d, "y/new")),
                calls.outcome(os.unlink, at(d, "y/z")),
            ]
            return said + [
                calls.outcome(os.getxattr, at(d, "x"), ACCESS),
                calls.outcome(os.chmod, at(d, "x"), 0o640),
                calls.outcome(os.getxattr, at(d, "x"), ACCESS),
                calls.outcome(os.utime, at(d, "x")),
            ]

        yield Case(f"'{text}' of {owner[0]} for {who}", setup, use, user)
    for text, mode in itertools.product(LISTS, [0, 0o777, 0o640, 0o2070, 0o6755, 0o107]):

        def listed(d, t=text):
            calls.make("file", at(d, "x"), 0o777)
            os.setxattr(at(d, "x"), ACCESS, acl(t))

        yield Case(
            f"chmod {mode:o} of a file with '{text}'", listed, steps(lambda d, m=mode: os.chmod(at(d, "x"), m), lambda d: os.getxattr(at(d, "x"), ACCESS))
        )


def inherited():
    from cases_making import MAKERS

    for text, (name, maker), mode, umask, (who, user), bits in itertools.product(
        LISTS + [None], MAKERS.items(), [0o777, 0o640, 0o2753], [0, 0o027], {"root": calls.ROOT, "owner": OWNER}.items(), [0o777, 0o2777]
    ):
        if name in ("mknod block", "mknod whiteout", "bind") or (bits == 0o2777 and mode != 0o777) or (name in ("symlink", "link") and mode != 0o777):
            continue

        def setup(d, t=text, b=bits):
            os.mkdir(at(d, "x"))
            os.chown(at(d, "x"), 2777, 2777)
            os.chmod(at(d, "x"), b)
            if t:
                os.setxattr(at(d, "x"), DEFAULT, acl(t))
            calls.make("file", at(d, "y"), 0o666)

        def make(d, f=maker, m=mode):
            return [calls.outcome(f, at(d, "x/new"), m)] + [calls.outcome(os.getxattr, at(d, "x/new"), n) for n in (ACCESS, DEFAULT)]

        yield Case(f"{name} {mode:o} below a directory {bits:o} with the default '{text}', umask {umask:o}, by {who}", setup, make, user, umask)


FAMILIES = {"xattrs": attributes, "access lists": lists, "granted by lists": granted, "inherited lists": inherited}
