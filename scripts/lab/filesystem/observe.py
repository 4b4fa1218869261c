"""What a directory and everything below it looks like to an application, in a form that two file systems can be compared by."""

import os
import stat
import zlib

MAX_READ = 4 << 20


def tree(root):
    """Paths below the root, with the root as "."; stat comes before anything is listed or read, since that may move access times."""
    found = {".": os.lstat(root)}
    directories = [""]
    while directories:
        directory = directories.pop()
        for name in sorted(os.listdir(os.path.join(root, directory)), key=os.fsencode):
            path = os.path.join(directory, name)
            found[path] = os.lstat(os.path.join(root, path))
            if stat.S_ISDIR(found[path].st_mode):
                directories.append(path)
    return found


def stats(root, known):
    """As `tree`, with what is known from before looked at first."""
    first = {}
    for path in known:
        try:
            first[path] = os.lstat(os.path.join(root, path) if path != "." else root)
        except OSError:
            pass
    after = tree(root)
    return {path: first.get(path, about) for path, about in after.items()}


def times(before, after, began_ns, ended_ns):
    """For every path which of its three times moved, and to what: "now", or a moment that somebody asked for."""
    slack = 2_000_000_000
    result = {}
    for path, about in after.items():
        old = before.get(path)
        for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns"):
            value = getattr(about, name)
            if old is not None and old.st_ino == about.st_ino and getattr(old, name) == value:
                said = "kept"
            elif began_ns - slack <= value <= ended_ns + slack:
                said = "now"
            else:
                said = value
            result[f"{path} {name[3:-3]}"] = said
    return result


def attributes_of(path):
    try:
        return {name: os.getxattr(path, name, follow_symlinks=False) for name in sorted(os.listxattr(path, follow_symlinks=False))}
    except OSError as error:
        return error.errno


def content_of(path, about):
    kind = stat.S_IFMT(about.st_mode)
    if kind == stat.S_IFLNK:
        return os.readlink(os.fsencode(path))
    if kind != stat.S_IFREG or about.st_size > MAX_READ:
        return None
    with open(path, "rb", buffering=0) as file:
        return zlib.crc32(file.readall())


def described(root, found):
    """Everything but times: type, mode, owner, names, size, device, which paths are one inode, extended attributes, content."""
    result, inodes = {}, {}
    for path, about in found.items():
        where = os.path.join(root, path) if path != "." else root
        is_directory = stat.S_ISDIR(about.st_mode)
        result[path] = {
            "mode": oct(about.st_mode),
            "uid": about.st_uid,
            "gid": about.st_gid,
            "links": about.st_nlink,
            "size": None if is_directory else about.st_size,
            "device": about.st_rdev,
            "same as": inodes.setdefault(about.st_ino, path),
            "attributes": attributes_of(where),
            "content": content_of(where, about),
        }
    return result
