"""The fsspec filesystem kintsugi://, through which pandas, PyArrow, DuckDB and others use a cluster."""

from __future__ import annotations

import contextlib
import datetime
import os
import posixpath
import re
import stat
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from fsspec.utils import stringify_path

from kintsugi.atomic import open_atomic
from kintsugi.cluster import OPTIONS, Cluster, connect
from kintsugi.file import File

_AUTHORITY = re.compile(r"(\[[^\]/]+\]|[^/:\[\]]+):\d+")
_STATS_AT_ONCE = 16
_OWN_OPTIONS = {*OPTIONS, "groups", "log_file"}


class KintsugiFile(AbstractBufferedFile):
    """A file that is read with a cache of fsspec. It is open in the cluster: who replaces it does not change what it reads."""

    _raw: Optional[File] = None

    def __init__(self, fs: "KintsugiFileSystem", path: str, block_size: Optional[int], cache_options: Optional[dict[str, Any]],
                 **kwargs: Any) -> None:
        raw = fs.cluster.open_raw(path)
        size = kwargs.pop("size", None) or raw.stat().st_size
        self._raw = raw  # some caches read everything at once
        super().__init__(fs, path, "rb", block_size or "default", cache_options=cache_options, size=size, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        assert self._raw is not None
        return self._raw.pread(max(0, end - start), start)  # some caches of fsspec ask for what lies behind the end

    def close(self) -> None:
        """Ends the reading."""
        if self._raw is not None:
            self._raw.close()
        super().close()


class KintsugiFileSystem(AbstractFileSystem):
    """Files of a cluster: kintsugi:///path in that of KINTSUGI_META, kintsugi://host:port/path in another.

    Storage options: address, secret_file, and the options of kintsugi.connect(). Instances with the same options share
    a connection, which is made when it is first needed, again in a child of fork().
    """

    protocol = "kintsugi"
    root_marker = "/"

    def __init__(self, address: Optional[str] = None, secret_file: Optional[str] = None, **storage_options: Any) -> None:
        own = {name: storage_options.pop(name) for name in _OWN_OPTIONS & storage_options.keys()}
        super().__init__(**storage_options)
        self.address = address
        self._settings = {"address": address, "secret_file": secret_file, **own}
        self._cluster: Optional[Cluster] = None

    @property
    def cluster(self) -> Cluster:
        """The connection, for what fsspec has no name for."""
        if self._cluster is None or not self._cluster.usable():
            self._cluster = _shared_connection(self._settings)
        return self._cluster

    # ---- addresses

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        if path.startswith("kintsugi://"):
            authority, path = _split(path)
        return "/" + path.strip("/") if path.startswith("/") else "/" + path.rstrip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        authority, _ = _split(path)
        return {"address": authority} if authority else {}

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path, with the address if one was given."""
        return f"kintsugi://{self.address or ''}{self._strip_protocol(name)}"

    # ---- what is there

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """The entries of a directory, or the file itself; a link that leads nowhere is of the type `other`."""
        path = self._strip_protocol(path)
        try:
            names = [entry.path for entry in self.cluster.scandir(path)]
        except NotADirectoryError:
            names = [path]
        if not detail:
            return names
        if len(names) <= _STATS_AT_ONCE:
            found = [self._info_or_none(name) for name in names]
        else:
            with ThreadPoolExecutor(_STATS_AT_ONCE) as pool:
                found = list(pool.map(self._info_or_none, names))
        return [info for info in found if info is not None]

    def _info_or_none(self, path: str) -> Optional[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return self.info(path)
        return None  # it was removed meanwhile

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """name, size, type (file, directory, other), mode, uid, gid, ino, nlink, mtime, created, islink, destination."""
        path = self._strip_protocol(path)
        about = self.cluster.lstat(path)
        link: dict[str, Any] = {"islink": stat.S_ISLNK(about.st_mode)}
        if link["islink"]:
            link["destination"] = self.cluster.readlink(path)
            with contextlib.suppress(FileNotFoundError):
                about = self.cluster.stat(path)
        kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}.get(stat.S_IFMT(about.st_mode), "other")
        size = about.st_size if kind == "file" else 0
        fields = {name: getattr(about, "st_" + name) for name in ("mode", "uid", "gid", "ino", "nlink", "mtime")}
        return {"name": path, "size": size, "type": kind, "created": about.st_ctime, **fields, **link}

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether something is there; no answer of the cluster is an error, not False."""
        return self.cluster.exists(self._strip_protocol(path))

    def lexists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is such a name, though it be a link that leads nowhere."""
        try:
            self.cluster.lstat(self._strip_protocol(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def isdir(self, path: str) -> bool:
        """Whether it is a directory."""
        return self.cluster.isdir(self._strip_protocol(path))

    def isfile(self, path: str) -> bool:
        """Whether it is a regular file."""
        return self.cluster.isfile(self._strip_protocol(path))

    def created(self, path: str) -> datetime.datetime:
        """When the attributes changed last, which is the nearest that is kept."""
        return datetime.datetime.fromtimestamp(self.info(path)["created"], datetime.timezone.utc)

    def modified(self, path: str) -> datetime.datetime:
        """When the bytes changed last."""
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], datetime.timezone.utc)

    # ---- bytes

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, autocommit: bool = True,
              cache_options: Optional[dict[str, Any]] = None, **kwargs: Any) -> Any:
        if mode == "rb":
            return KintsugiFile(self, path, block_size, cache_options, **kwargs)
        if mode in ("wb", "xb"):
            return open_atomic(self.cluster, path, exclusive=mode == "xb", publish=autocommit)
        return self.cluster.open(path, mode)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        """The bytes of a file, or a part of it; negative places count from the end."""
        with self.cluster.open_raw(self._strip_protocol(path)) as file:
            size = file.stat().st_size
            begin, stop, _ = slice(start, end).indices(size)
            return file.pread(max(0, stop - begin), begin)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty file, or sets the time of one; with `truncate` it is empty afterwards."""
        path = self._strip_protocol(path)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if truncate else 0)
        self.cluster.open_raw(path, flags).close()
        self.cluster.utime(path)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file, whose bytes are shared by the servers and not moved; of a directory, makes it only."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.cluster.isdir(path1):
            self.makedirs(path2, exist_ok=True)
        else:
            self.cluster.copy_file(path1, path2)

    # ---- names

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Makes a directory, and those above it."""
        path = self._strip_protocol(path)
        self.cluster.makedirs(path) if create_parents else self.cluster.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and those above it."""
        self.cluster.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        self.cluster.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Removes a file."""
        self.cluster.remove(self._strip_protocol(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Removes files, and with `recursive` directories with all that is in them."""
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for one in self.expand_path(path):
            if recursive and self.cluster.isdir(one) and not self.info(one)["islink"]:
                self.cluster.rmtree(one)
            else:
                self.cluster.remove(one)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any) -> None:
        """Gives a file or directory another name in one step; into `path2` if that is a directory."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.cluster.isdir(path2):
            path2 = posixpath.join(path2, posixpath.basename(path1))
        self.cluster.rename(path1, path2)


def _split(url: str) -> tuple[str, str]:
    """The host:port, or "", and the path of a URL or of a path."""
    if not url.startswith("kintsugi://"):
        return "", url
    authority, slash, path = url[len("kintsugi://"):].partition("/")
    if authority and not _AUTHORITY.fullmatch(authority):
        raise ValueError(f"{url}: {authority} is not host:port; a path in the cluster of KINTSUGI_META has three slashes: "
                         f"kintsugi:///{authority}{slash}{path}")
    return authority, "/" + path


# The connections of this process, by their settings.
_connections: "weakref.WeakValueDictionary[str, Cluster]" = weakref.WeakValueDictionary()
_connecting = threading.Lock()


def _shared_connection(settings: dict[str, Any]) -> Cluster:
    key = repr((os.environ.get("KINTSUGI_META"), os.environ.get("KINTSUGI_SECRET_FILE"), os.environ.get("KINTSUGI_TOKEN_FILE"), sorted(settings.items())))
    with _connecting:
        cluster = _connections.get(key)
        if cluster is None or not cluster.usable():
            cluster = _connections[key] = connect(**settings)
        return cluster


def _forget_connections() -> None:
    """In a child of fork(): the connections belong to the parent, and one of its threads may have held the lock."""
    global _connecting
    _connecting = threading.Lock()
    _connections.clear()


os.register_at_fork(after_in_child=_forget_connections)
