"""Where the mount differs from ext4 on purpose, or because FUSE cannot carry it, and why."""

import dataclasses
import typing


@dataclasses.dataclass
class Rule:
    why: str
    families: tuple = ()  # empty: all
    case: str = ""  # part of its name
    what: tuple = ("",)  # parts of what differs, one of which must be in it
    test: typing.Callable = lambda ours, theirs: True  # of both values
    also: typing.Callable = lambda _name: True  # of the case's name


def in_years(ours, theirs):
    """Moments before 1901 or after 2262, which one of them cuts off."""
    return isinstance(ours, int) and isinstance(theirs, int) and ours // 10**9 != theirs // 10**9 and (abs(theirs) >= 2**31 * 10**9)


TIMES = (" mtime", " ctime")

RULES = [
    Rule("reads do not change access times", what=(" atime",), test=lambda ours, theirs: (ours, theirs) == ("kept", "now")),
    Rule("ext4 has years 1901 to 2446, the mount 1677 to 2262", ("utimensat",), "utimensat to", (" atime", " mtime"), in_years),
    Rule("whiteouts are for overlays on one machine: EINVAL", ("rename",), "flags 0x4"),
    Rule(
        "a write to a named pipe stays in the kernel, which does not tell when",
        ("open flags", "open permissions", "descriptors"),
        "fifo",
        TIMES,
        lambda ours, theirs: (ours, theirs) == ("kept", "now"),
    ),
    Rule("the kernel truncates with the open, before it looks whether the program runs", ("programs",), "open TRUNC of a program"),
    Rule(
        "fallocate reserves nothing: nobody knows in which stripes the bytes will be. What changes nothing changes no times",
        ("allocation",),
        "",
        TIMES,
        lambda ours, theirs: (ours, theirs) == ("kept", "now"),
        lambda name: any(f" {word} " in name for word in ("allocate", "keep size", "punch")) or "fallocate 0 " in name or "fallocate 1 " in name,
    ),
    Rule(
        "ranges are not inserted, collapsed or unshared: EOPNOTSUPP",
        ("allocation",),
        also=lambda name: any(f" {word} " in name for word in ("collapse", "insert", "unshare")),
    ),
    Rule(
        "files may have up to 2^63 - 1 bytes, those of ext4 16 TiB",
        ("allocation", "copying", "reading and writing", "truncate"),
        also=lambda name: "922337203685477" in name,
    ),
    Rule(
        "the set-group-ID bit without the right to execute, once a sign for locks, stays when somebody else writes",
        ("reading and writing", "truncate"),
        what=("said", " mode"),
        also=lambda name: "2666" in name or "2745" in name,
    ),
    Rule(
        "whoever may write a file may also take its set-ID bits away by giving it to its owner",
        ("chown",),
        "chown -1:-1 of a",
        also=lambda name: " 7777 by " in name,
    ),
    Rule("a write by root takes set-ID bits away together with capabilities", ("xattrs",), "of a file with capabilities by root", (" mode",)),
    Rule("there are no handles for files that outlive the mount: EOPNOTSUPP", ("controls",), "name_to_handle_at"),
    Rule("the kernel does not ask for holes of directories", ("reading and writing",), "a dir opened with"),
    Rule("attributes may have 64 KiB, those of ext4 a block", ("xattrs",), "an attribute of", also=lambda name: name.endswith(" bytes")),
    Rule("security.* but for capabilities is set by root", ("xattrs",), "security.selinux"),
    Rule(
        "the kernel is not told whether a lock is one of an open file description",
        ("lock conflicts", "lock arguments", "lock ranges"),
        test=lambda ours, theirs: str(ours).replace("-1", "1") == str(theirs).replace("-1", "1"),
    ),
    Rule("the inode of .. in a listing is that of the root", ("listing",), "inodes of . and .."),
    Rule("the mode and owner of a directory that was removed cannot be changed: ESTALE", ("counts",), "a directory that is removed while it is open"),
]


def reason(family, case, what, ours, theirs):
    for rule in RULES:
        if rule.what == (" atime",) and family == "utimensat" and what.startswith("x") and not (what == "x atime" and ("link" in case or "dangling" in case)):
            continue
        if rule.families and family not in rule.families:
            continue
        if rule.case in case and any(part in what for part in rule.what) and rule.test(ours, theirs) and rule.also(case):
            return rule.why
    return None
