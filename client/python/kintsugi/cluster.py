"""A connection to a cluster, with the functions that os, shutil and open() have for local files."""

from __future__ import annotations

import ctypes
import errno
import io
import os
import posixpath
import stat
from typing import IO, Any, Iterator, NamedTuple, Optional, Sequence

from kintsugi import library as c
from kintsugi.atomic import AtomicFile, open_atomic
from kintsugi.directory import DirectoryScan
from kintsugi.file import File
from kintsugi.library import Path, encoded, offset

_BUFFER_BYTES = 256 << 10
_NOREPLACE = 1
_TIME_NOW = 2**63 - 1
_LONGEST_TARGET = 4096

# Arguments of connect() that are fields of the library's options: their names there, and the units in one of ours.
OPTIONS = {
    "uid": ("uid", 1), "gid": ("gid", 1), "umask": ("umask", 1), "connect_timeout": ("connect_timeout_ms", 1000),
    "io_timeout": ("io_timeout_ms", 1000), "write_behind": ("write_behind_ms", 1000), "dirty_bytes": ("dirty_bytes", 1),
    "memory_bytes": ("memory_bytes", 1), "read_ahead_bytes": ("read_ahead_bytes", 1),
}


class Usage(NamedTuple):
    """Room in the cluster: bytes of file data, what the code adds being taken off, and how many inodes there are."""

    total_bytes: int
    free_bytes: int
    files: int


def connect(address: Optional[str] = None, secret_file: Optional[Path] = None, *, groups: Optional[Sequence[int]] = None,
            log_file: Optional[Path] = None, token_file: Optional[Path] = None, **options: float) -> "Cluster":
    """Connects to the metaserver at host:port, by default as KINTSUGI_META, KINTSUGI_SECRET_FILE and KINTSUGI_TOKEN_FILE say.

    Options: uid, gid, groups, umask, connect_timeout, io_timeout and write_behind in seconds, dirty_bytes, memory_bytes,
    read_ahead_bytes, log_file, and token_file, whose token is used in place of the secret.
    """
    unknown = options.keys() - OPTIONS.keys()
    if unknown:
        raise TypeError(f"connect() has no option {min(unknown)}; it has {', '.join(sorted(OPTIONS))}")
    return Cluster(address, secret_file, groups=groups, log_file=log_file, token_file=token_file, **options)


class Cluster:
    """A connection, made by connect(). Any thread may call; a child of fork() makes its own.

    Paths begin at the cluster's root. Errors are those of os: FileNotFoundError, PermissionError and so on, all OSError.
    """

    _handle: Optional[int] = None

    def __init__(self, address: Optional[str], secret_file: Optional[Path], *, groups: Optional[Sequence[int]],
                 log_file: Optional[Path], token_file: Optional[Path] = None, **options: float) -> None:
        self.library = c.load()
        self._pid = os.getpid()
        given = c.Options()
        self.library.call("options_init", ctypes.byref(given), ctypes.sizeof(given))
        for name, value in options.items():
            field, unit = OPTIONS[name]
            setattr(given, field, int(value * unit))
        if groups is not None:
            given.groups = (ctypes.c_uint32 * max(1, len(groups)))(*groups)
            given.group_count = len(groups)
        if log_file is not None:
            given.log_file = encoded(log_file)
        if token_file is not None:
            given.token_file = encoded(token_file)
        handle = ctypes.c_void_p()
        self.library.call("connect", None if address is None else encoded(address),
                          None if secret_file is None else encoded(secret_file), ctypes.byref(given), ctypes.byref(handle))
        self._handle = handle.value

    # ---- its life

    def close(self) -> None:
        """Closes what is open, writes everything out and disconnects; raises the first error of that. Again: nothing happens."""
        usable = self.usable()
        handle = self.__dict__.pop("_handle", None)
        if usable and handle is not None:
            self.library.call("disconnect", handle)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._handle is not None:
            self.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._handle is None

    def usable(self) -> bool:
        """Whether calls are possible: it is not closed, and this is the process that connected."""
        return self._handle is not None and self._pid == os.getpid()

    def check(self) -> int:
        """The library's handle. ValueError: closed; OSError (EBADF): this process is a child of the one that connected."""
        handle = self._handle
        if handle is None:
            raise ValueError("the connection to the cluster is closed")
        if self._pid != os.getpid():
            raise OSError(errno.EBADF, "this connection belongs to the parent process: call kintsugi.connect() after fork()")
        return handle

    def opened(self, function: str, path: Path, *arguments: Any) -> int:
        """The handle that kintsugi_open or kintsugi_opendir gives."""
        handle = ctypes.c_void_p()
        self._on(function, path, *arguments, ctypes.byref(handle))
        assert handle.value is not None
        return handle.value

    def _on(self, function: str, path: Path, *arguments: Any) -> int:
        return self.library.call(function, self.check(), encoded(path), *arguments, path=path)

    # ---- files

    def open(self, path: Path, mode: str = "r", buffering: int = -1, encoding: Optional[str] = None, errors: Optional[str] = None,
             newline: Optional[str] = None, *, permissions: int = 0o666) -> IO[Any]:
        """Opens a file as the builtin open() does; `permissions` are those of a new file, less the umask of the connection."""
        flags, text = _flags_of(mode)
        if text and buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        if not text and (encoding or errors or newline is not None):
            raise ValueError("binary mode takes no encoding, errors or newline")
        raw = self.open_raw(path, flags, permissions)
        try:
            if flags & os.O_APPEND:
                raw.seek(0, os.SEEK_END)
            if buffering == 0:
                return raw  # type: ignore[return-value]
            size = buffering if buffering > 1 else _BUFFER_BYTES
            buffered: Any = _BUFFERS[flags & os.O_ACCMODE](raw, size)
            if not text:
                return buffered  # type: ignore[no-any-return]
            stream: Any = io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)
            stream.mode = mode
            return stream  # type: ignore[no-any-return]
        except BaseException:
            raw.close()
            raise

    def open_raw(self, path: Path, flags: int = os.O_RDONLY, permissions: int = 0o666) -> File:
        """Opens a file with flags of os.open(), as an unbuffered stream that has pread and pwrite too."""
        return File(self, self.opened("open", path, flags, permissions & 0o7777), flags, path)

    def open_atomic(self, path: str, mode: str = "wb", *, permissions: int = 0o666) -> AtomicFile:
        """Writes a file that takes its name when it is closed ("wb": instead of the old one, "xb": if there is none)."""
        if mode not in ("wb", "xb"):
            raise ValueError(f"open_atomic() knows the modes wb and xb, not {mode!r}")
        return open_atomic(self, path, exclusive=mode == "xb", permissions=permissions)

    def copy_file(self, source: Path, target: str) -> None:
        """Makes or replaces `target` with the bytes and the mode of a file; no byte of it is moved."""
        with self.open_raw(source) as old:
            about, done = old.stat(), 0
            with open_atomic(self, target, exclusive=False, permissions=stat.S_IMODE(about.st_mode)) as new:
                raw: File = new.raw  # type: ignore[assignment]
                while shared := old.copy_range(done, raw, done, about.st_size):
                    done += shared

    def truncate(self, path: Path, size: int) -> None:
        """Makes a file `size` bytes long."""
        self._on("truncate", path, offset(size))

    # ---- names

    def listdir(self, path: Path = "/") -> list[str]:
        """The names in a directory, in the order of bytes."""
        return [entry.name for entry in self.scandir(path)]

    def scandir(self, path: Path = "/") -> DirectoryScan:
        """The entries of a directory one after the other."""
        return DirectoryScan(self, path)

    def walk(self, top: str = "/") -> Iterator[tuple[str, list[str], list[str]]]:
        """As os.walk(), from the top down; it does not follow symbolic links."""
        directories: list[str] = []
        files: list[str] = []
        for entry in self.scandir(top):
            (directories if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
        yield top, directories, files
        for name in directories:
            yield from self.walk(posixpath.join(top, name))

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        """Makes one directory."""
        self._on("mkdir", path, mode & 0o7777)

    def makedirs(self, path: Path, mode: int = 0o777, exist_ok: bool = False) -> None:
        """Makes a directory and those above it that are missing."""
        try:
            self.mkdir(path, mode)
        except FileNotFoundError:
            above = posixpath.dirname(os.fsdecode(path).rstrip("/"))
            if above in ("", "/"):
                raise
            self.makedirs(above, exist_ok=True)
            self.makedirs(path, mode, exist_ok)
        except FileExistsError:
            if not (exist_ok and self.isdir(path)):
                raise

    def rmdir(self, path: Path) -> None:
        """Removes an empty directory."""
        self._on("rmdir", path)

    def remove(self, path: Path) -> None:
        """Removes a file or a symbolic link; a file that is open lives on until it is closed everywhere."""
        self._on("unlink", path)

    unlink = remove

    def rmtree(self, path: str) -> None:
        """Removes a directory with all that is in it."""
        for entry in list(self.scandir(path)):
            if entry.is_dir(follow_symlinks=False):
                self.rmtree(entry.path)
            else:
                self.remove(entry.path)
        self.rmdir(path)

    def rename(self, source: Path, target: Path, *, replace: bool = True) -> None:
        """Gives a file or directory another name, in one step; without `replace`, FileExistsError if there is one."""
        flags = 0 if replace else _NOREPLACE
        self.library.call("rename", self.check(), encoded(source), encoded(target), flags, path=source, path2=target)

    def link(self, source: Path, target: Path) -> None:
        """Gives a file one more name."""
        self.library.call("link", self.check(), encoded(source), encoded(target), path=source, path2=target)

    def symlink(self, target: Path, path: Path) -> None:
        """Makes a symbolic link at `path`."""
        self.library.call("symlink", self.check(), encoded(target), encoded(path), path=target, path2=path)

    def readlink(self, path: Path) -> str:
        """What a symbolic link says."""
        buffer = ctypes.create_string_buffer(_LONGEST_TARGET)
        length = self._on("readlink", path, buffer, _LONGEST_TARGET)
        return os.fsdecode(buffer.raw[:length])

    # ---- attributes

    def stat(self, path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        """As os.stat(); st_dev is 0."""
        about = c.Stat()
        self._on("stat" if follow_symlinks else "lstat", path, ctypes.byref(about))
        return about.result()

    def lstat(self, path: Path) -> os.stat_result:
        """Of a symbolic link itself."""
        return self.stat(path, follow_symlinks=False)

    def _mode(self, path: Path) -> int:
        try:
            return self.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def exists(self, path: Path) -> bool:
        """Whether something is there. An error that leaves it open (no answer, no permission) is raised."""
        return self._mode(path) != 0

    def isdir(self, path: Path) -> bool:
        """Whether it is a directory, or a link to one."""
        return stat.S_ISDIR(self._mode(path))

    def isfile(self, path: Path) -> bool:
        """Whether it is a regular file, or a link to one."""
        return stat.S_ISREG(self._mode(path))

    def chmod(self, path: Path, mode: int) -> None:
        """Sets the permissions."""
        self._on("chmod", path, mode & 0o7777)

    def chown(self, path: Path, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """Sets owner and group; -1 leaves one as it is."""
        self._on("chown" if follow_symlinks else "lchown", path, uid & c.OWN_ID, gid & c.OWN_ID)

    def utime(self, path: Path, ns: Optional[tuple[int, int]] = None) -> None:
        """Sets the times of access and change in nanoseconds since 1970, by default to now."""
        self._on("utimens", path, *(ns or (_TIME_NOW, _TIME_NOW)))

    def usage(self) -> Usage:
        """Room in the cluster."""
        about = c.Statfs()
        self.library.call("statfs", self.check(), ctypes.byref(about))
        return Usage(about.total_bytes, about.free_bytes, about.files)

    # ---- extended attributes

    def getxattr(self, path: Path, name: str) -> bytes:
        """The value of an extended attribute."""
        return self._sized("getxattr", path, encoded(name))

    def setxattr(self, path: Path, name: str, value: bytes, flags: int = 0) -> None:
        """Sets an extended attribute; flags are os.XATTR_CREATE and os.XATTR_REPLACE."""
        self._on("setxattr", path, encoded(name), bytes(value), len(value), flags)

    def listxattr(self, path: Path) -> list[str]:
        """The names of the extended attributes."""
        return [os.fsdecode(name) for name in self._sized("listxattr", path).split(b"\0") if name]

    def removexattr(self, path: Path, name: str) -> None:
        """Removes an extended attribute."""
        self._on("removexattr", path, encoded(name))

    def _sized(self, function: str, path: Path, *arguments: Any) -> bytes:
        """What a function gives that must be told how much room there is, which may have become too little meanwhile."""
        while True:
            size = self._on(function, path, *arguments, None, 0)
            buffer = ctypes.create_string_buffer(size)
            try:
                length = self._on(function, path, *arguments, buffer, size) if size else 0
                return buffer.raw[:length]
            except OSError as error:
                if error.errno != errno.ERANGE:
                    raise


_BUFFERS: dict[int, Any] = {os.O_RDONLY: io.BufferedReader, os.O_WRONLY: io.BufferedWriter, os.O_RDWR: io.BufferedRandom}
_MODES = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}


def _flags_of(mode: str) -> tuple[int, bool]:
    """The flags of a mode of open(), and whether it is one for text."""
    kinds = [letter for letter in mode if letter in _MODES]
    if len(kinds) != 1 or set(mode) - set("rwxab+t") or len(set(mode)) != len(mode) or {"t", "b"} <= set(mode):
        raise ValueError(f"invalid mode: {mode!r}")
    access = os.O_RDWR if "+" in mode else os.O_RDONLY if kinds[0] == "r" else os.O_WRONLY
    return access | _MODES[kinds[0]], "b" not in mode
