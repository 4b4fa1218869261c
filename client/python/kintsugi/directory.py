"""Directories of a cluster as they are read."""

from __future__ import annotations

import ctypes
import os
import stat
from typing import TYPE_CHECKING, Iterator, Optional

from kintsugi.library import Dirent, Path

if TYPE_CHECKING:
    from kintsugi.cluster import Cluster


class DirectoryEntry:
    """One name of a directory, as os.DirEntry: its type is known without a call, unless it is a symbolic link."""

    def __init__(self, cluster: "Cluster", directory: str, name: str, kind: int, inode: int) -> None:
        self._cluster = cluster
        self._kind = kind
        self._inode = inode
        self.name = name
        self.path = directory.rstrip("/") + "/" + name if directory else name

    def inode(self) -> int:
        """The number of the inode."""
        return self._inode

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self._kind)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory, or a link to one."""
        return stat.S_ISDIR(self._kind_of(follow_symlinks))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file, or a link to one."""
        return stat.S_ISREG(self._kind_of(follow_symlinks))

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Asks the cluster for the attributes, each time."""
        return self._cluster.stat(self.path, follow_symlinks=follow_symlinks)

    def _kind_of(self, follow_symlinks: bool) -> int:
        if not (follow_symlinks and self.is_symlink()):
            return self._kind
        try:
            return self.stat().st_mode
        except FileNotFoundError:
            return 0

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<kintsugi.DirectoryEntry {self.name!r}>"


class DirectoryScan:
    """The entries of a directory in the order of bytes, without "." and ".."; also a context manager, as os.scandir().

    One thread at a time. What others make or remove meanwhile is seen or not.
    """

    def __init__(self, cluster: "Cluster", path: Path) -> None:
        self._cluster = cluster
        self._path = path
        self._handle: Optional[int] = cluster.opened("opendir", path)

    def __iter__(self) -> Iterator[DirectoryEntry]:
        return self

    def __next__(self) -> DirectoryEntry:
        entry = Dirent()
        if self._handle is not None:
            self._cluster.check()
            if self._cluster.library.call("readdir", self._handle, ctypes.byref(entry), path=self._path):
                name = os.fsdecode(entry.name)
                return DirectoryEntry(self._cluster, os.fsdecode(self._path), name, entry.type, entry.ino)
            self.close()
        raise StopIteration

    def close(self) -> None:
        """Ends the reading; at the end of the directory it has happened already."""
        handle, self._handle = self._handle, None
        if handle is not None and self._cluster.usable():
            self._cluster.library.call("closedir", handle, path=self._path)

    def __enter__(self) -> "DirectoryScan":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()
