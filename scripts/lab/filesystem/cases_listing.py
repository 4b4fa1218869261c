"""Listings, also while entries come and go; statfs."""

import ctypes
import os

import calls
from case import Case, at, object_of

ENTRIES = 1000


def listing():
    def many(d):
        os.mkdir(at(d, "x"))
        for i in range(ENTRIES):
            os.symlink("t", at(d, f"x/name-{i}"))

    class Listing:
        def __init__(self, path):
            self.libc = ctypes.CDLL(None, use_errno=True)
            for name, types in (
                ("opendir", [ctypes.c_char_p]),
                ("readdir", [ctypes.c_void_p]),
                ("telldir", [ctypes.c_void_p]),
                ("seekdir", [ctypes.c_void_p, ctypes.c_long]),
                ("rewinddir", [ctypes.c_void_p]),
                ("closedir", [ctypes.c_void_p]),
            ):
                getattr(self.libc, name).argtypes = types
                getattr(self.libc, name).restype = ctypes.c_void_p
            self.libc.telldir.restype = ctypes.c_long
            self.stream = self.libc.opendir(os.fsencode(path))

        def next(self):
            entry = self.libc.readdir(self.stream)
            return ctypes.string_at(entry + 19).decode() if entry else None

        def rest(self):
            found = []
            while name := self.next():
                found.append(name)
            return found

    def whole(d):
        one = Listing(at(d, "x"))
        names = one.rest()
        one.libc.rewinddir(one.stream)
        again = one.rest()
        one.libc.closedir(one.stream)
        return len(names), len(set(names)), names == again

    yield Case("many entries, twice", many, whole, times=False)

    def sought(d):
        one = Listing(at(d, "x"))
        places = {}
        for _ in range(ENTRIES + 2):
            where = one.libc.telldir(one.stream)
            places[one.next()] = where
        wrong = 0
        for name, where in list(places.items())[::17]:
            one.libc.seekdir(one.stream, where)
            wrong += one.next() != name
        one.libc.closedir(one.stream)
        return wrong

    yield Case("telldir and seekdir", many, sought, times=False)

    def churned(d):
        """What was there all the time is listed once, whatever comes and goes."""
        one = Listing(at(d, "x"))
        found = [one.next() for _ in range(100)]
        for i in range(0, ENTRIES, 2):
            os.unlink(at(d, f"x/name-{i}"))
        for i in range(1000):
            os.symlink("t", at(d, f"x/new-{i}"))
        found += one.rest()
        stayed = [name for name in found if name.startswith("name-") and int(name[5:]) % 2]
        gone = sum(1 for name in found[100:] if name.startswith("name-") and int(name[5:]) % 2 == 0)
        one.libc.rewinddir(one.stream)
        rewound = one.rest()
        one.libc.closedir(one.stream)
        return len(stayed), len(set(stayed)), gone < ENTRIES // 2, len(rewound), len(found) == len(set(found))

    yield Case("a listing while entries come and go", many, churned, times=False)

    def emptied(d):
        """As rm -r does it: removing what is listed, batch by batch."""
        one, removed = Listing(at(d, "x")), 0
        while name := one.next():
            if not name.startswith("."):
                os.unlink(at(d, "x/" + name))
                removed += 1
        one.libc.closedir(one.stream)
        return removed, os.rmdir(at(d, "x"))

    yield Case("entries are removed while they are listed", many, emptied, times=False)

    def types(d):
        for kind in ("file", "dir", "fifo", "socket", "char", "block", "link", "dangling"):
            calls.make(kind, at(d, kind))
        return sorted(
            (e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False), e.is_symlink(), e.inode() == e.stat(follow_symlinks=False).st_ino)
            for e in os.scandir(d)
        )

    yield Case("types in listings", object_of("none"), types)

    def dots(d):
        os.mkdir(at(d, "x/below"))
        inodes = {}
        for where in ("x", "x/below"):
            one = Listing(at(d, where))
            while entry := one.libc.readdir(one.stream):
                inodes[where, ctypes.string_at(entry + 19).decode()] = ctypes.c_uint64.from_address(entry).value
            one.libc.closedir(one.stream)
        return inodes["x", "."] == os.stat(at(d, "x")).st_ino, inodes["x/below", ".."] == os.stat(at(d, "x")).st_ino, inodes["x", ".."] == os.stat(d).st_ino

    yield Case("the inodes of . and .. in a listing", object_of("dir"), dots)
    for kind in ("file", "fifo", "link", "dangling"):
        yield Case(f"a listing of a {kind}", object_of(kind), lambda d: os.listdir(at(d, "x")))

    def space(d):
        one, other = os.statvfs(d), os.statvfs(at(d, "x"))
        return one.f_namemax, one.f_bsize, one.f_frsize, one.f_blocks == other.f_blocks, one.f_bfree >= one.f_bavail, one.f_ffree > 0

    yield Case("statvfs", object_of("file"), space)

    def inode_numbers(d):
        before = os.stat(at(d, "x")).st_ino
        os.rename(at(d, "x"), at(d, "y"))
        return before == os.stat(at(d, "y")).st_ino, os.stat(at(d, "y")).st_dev == os.stat(d).st_dev, os.stat(d).st_blksize

    yield Case("inode numbers stay", object_of("file"), inode_numbers)


FAMILIES = {"listing": listing}
