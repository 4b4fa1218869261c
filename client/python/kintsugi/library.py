"""libkintsugi.so as ctypes sees it: its structures, its functions, and its results as Python has them."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Optional, Union

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

LARGEST_OFFSET = 2**63 - 1
OWN_ID = 2**32 - 1


class Options(ctypes.Structure):
    """struct kintsugi_options, with room behind it for fields of later versions of the library."""

    _fields_ = [
        ("size", ctypes.c_size_t), ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32),
        ("groups", ctypes.POINTER(ctypes.c_uint32)), ("group_count", ctypes.c_size_t), ("umask", ctypes.c_uint32),
        ("max_outstanding", ctypes.c_uint32), ("connect_timeout_ms", ctypes.c_uint64), ("io_timeout_ms", ctypes.c_uint64),
        ("write_behind_ms", ctypes.c_uint64), ("dirty_bytes", ctypes.c_uint64), ("memory_bytes", ctypes.c_uint64),
        ("read_ahead_bytes", ctypes.c_uint64), ("log_file", ctypes.c_char_p), ("token_file", ctypes.c_char_p),
        ("later", ctypes.c_uint64 * 127),
    ]


class Stat(ctypes.Structure):
    """struct kintsugi_stat."""

    _fields_ = [
        ("ino", ctypes.c_uint64), ("size", ctypes.c_uint64), ("blocks", ctypes.c_uint64), ("mode", ctypes.c_uint32),
        ("nlink", ctypes.c_uint32), ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32), ("rdev", ctypes.c_uint64),
        ("atime_ns", ctypes.c_int64), ("mtime_ns", ctypes.c_int64), ("ctime_ns", ctypes.c_int64), ("reserved", ctypes.c_uint64 * 4),
    ]

    def result(self) -> os.stat_result:
        """The same as os.stat() says it; st_dev is 0."""
        times = [("atime", self.atime_ns), ("mtime", self.mtime_ns), ("ctime", self.ctime_ns)]
        named: dict[str, Any] = {f"st_{name}_ns": ns for name, ns in times}
        named.update({f"st_{name}": ns / 1e9 for name, ns in times})
        named.update(st_blocks=self.blocks, st_blksize=1 << 20, st_rdev=self.rdev)
        whole = (ns // 10**9 for _, ns in times)
        return os.stat_result((self.mode, self.ino, 0, self.nlink, self.uid, self.gid, self.size, *whole), named)


class Statfs(ctypes.Structure):
    """struct kintsugi_statfs."""

    _fields_ = [("total_bytes", ctypes.c_uint64), ("free_bytes", ctypes.c_uint64), ("files", ctypes.c_uint64),
                ("reserved", ctypes.c_uint64 * 5)]


class Dirent(ctypes.Structure):
    """struct kintsugi_dirent."""

    _fields_ = [("ino", ctypes.c_uint64), ("type", ctypes.c_uint32), ("name", ctypes.c_char * 260)]


_HANDLE = ctypes.c_void_p
_PATH = ctypes.c_char_p
_BUFFER = ctypes.c_void_p
_OFFSET = ctypes.c_int64
_ID = ctypes.c_uint32

# Functions that return an int.
_SHORT: dict[str, list[Any]] = {
    "options_init": [ctypes.POINTER(Options), ctypes.c_size_t],
    "connect": [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Options), ctypes.POINTER(_HANDLE)],
    "disconnect": [_HANDLE],
    "open": [_HANDLE, _PATH, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_HANDLE)],
    "close": [_HANDLE],
    "fsync": [_HANDLE],
    "ftruncate": [_HANDLE, _OFFSET],
    "fallocate": [_HANDLE, ctypes.c_int, _OFFSET, _OFFSET],
    "fstat": [_HANDLE, ctypes.POINTER(Stat)],
    "stat": [_HANDLE, _PATH, ctypes.POINTER(Stat)],
    "lstat": [_HANDLE, _PATH, ctypes.POINTER(Stat)],
    "statfs": [_HANDLE, ctypes.POINTER(Statfs)],
    "truncate": [_HANDLE, _PATH, _OFFSET],
    "chmod": [_HANDLE, _PATH, ctypes.c_uint32],
    "chown": [_HANDLE, _PATH, _ID, _ID],
    "lchown": [_HANDLE, _PATH, _ID, _ID],
    "utimens": [_HANDLE, _PATH, _OFFSET, _OFFSET],
    "mkdir": [_HANDLE, _PATH, ctypes.c_uint32],
    "rmdir": [_HANDLE, _PATH],
    "unlink": [_HANDLE, _PATH],
    "rename": [_HANDLE, _PATH, _PATH, ctypes.c_uint],
    "link": [_HANDLE, _PATH, _PATH],
    "symlink": [_HANDLE, _PATH, _PATH],
    "opendir": [_HANDLE, _PATH, ctypes.POINTER(_HANDLE)],
    "readdir": [_HANDLE, ctypes.POINTER(Dirent)],
    "closedir": [_HANDLE],
    "setxattr": [_HANDLE, _PATH, ctypes.c_char_p, _BUFFER, ctypes.c_size_t, ctypes.c_int],
    "removexattr": [_HANDLE, _PATH, ctypes.c_char_p],
}

# Functions that return an int64_t.
_LONG: dict[str, list[Any]] = {
    "pread": [_HANDLE, _BUFFER, ctypes.c_size_t, _OFFSET],
    "pwrite": [_HANDLE, _BUFFER, ctypes.c_size_t, _OFFSET],
    "lseek": [_HANDLE, _OFFSET, ctypes.c_int],
    "copy_file_range": [_HANDLE, _OFFSET, _HANDLE, _OFFSET, ctypes.c_uint64],
    "readlink": [_HANDLE, _PATH, _BUFFER, ctypes.c_size_t],
    "getxattr": [_HANDLE, _PATH, ctypes.c_char_p, _BUFFER, ctypes.c_size_t],
    "listxattr": [_HANDLE, _PATH, _BUFFER, ctypes.c_size_t],
}


class Library:
    """The loaded library: `call` runs one of its functions, without the interpreter's lock, and raises what it says."""

    def __init__(self, name: str) -> None:
        try:
            self._dll = ctypes.CDLL(name)
        except OSError as error:
            raise ImportError(f"the library of Kintsugi cannot be loaded ({error}): install libkintsugi1, "
                              "or name the file libkintsugi.so.1 in KINTSUGI_LIBRARY") from None
        self._dll.kintsugi_last_error.restype = ctypes.c_char_p
        self._functions = {}
        for functions, result in ((_SHORT, ctypes.c_int), (_LONG, ctypes.c_int64)):
            for function, arguments in functions.items():
                found = getattr(self._dll, "kintsugi_" + function)
                found.argtypes, found.restype = arguments, result
                self._functions[function] = found

    def call(self, function: str, *arguments: Any, path: Optional[Path] = None, path2: Optional[Path] = None) -> int:
        """The result of kintsugi_<function>, or OSError with its errno, its sentence and the paths of the caller."""
        result: int = self._functions[function](*arguments)
        if result >= 0:
            return result
        said = self._dll.kintsugi_last_error().decode(errors="replace")
        raise os_error(-result, said, path, path2)


def os_error(number: int, sentence: str, path: Optional[Path] = None, path2: Optional[Path] = None) -> OSError:
    """The subclass of OSError that an errno has, with a sentence in one line."""
    kind, _, detail = sentence.partition(": ")
    text = " ".join((kind if kind == detail else sentence).split()) or os.strerror(number)
    if path is None:
        return OSError(number, text)
    if path2 is None:
        return OSError(number, text, os.fspath(path))
    return OSError(number, text, os.fspath(path), None, os.fspath(path2))


@functools.lru_cache(maxsize=None)
def load() -> Library:
    """The library that KINTSUGI_LIBRARY names, or that the system's loader finds; ImportError if there is none."""
    return Library(os.environ.get("KINTSUGI_LIBRARY") or "libkintsugi.so.1")


def encoded(path: Path) -> bytes:
    """A path or name as the library takes it. ValueError: there is a zero byte in it, at which C would cut it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    return name


def offset(value: int) -> int:
    """A place in a file or a size, which ctypes would cut to 64 bits."""
    if value < 0:
        raise ValueError(f"negative offset or size {value}")
    if value > LARGEST_OFFSET:
        raise OverflowError(f"offset or size {value} is above 2**63 - 1")
    return value
