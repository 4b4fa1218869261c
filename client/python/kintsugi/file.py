"""An open file of a cluster as a raw stream of io."""

from __future__ import annotations

import ctypes
import io
import os
from typing import TYPE_CHECKING, Any, Optional

from kintsugi.library import Path, Stat, offset

if TYPE_CHECKING:
    from kintsugi.cluster import Cluster

# Bytes that cannot be lent to C, because their owner may not change them, are copied in pieces of this size.
_COPIED_BYTES = 8 << 20


class File(io.RawIOBase):
    """An unbuffered file with a position, made by Cluster.open_raw and inside what Cluster.open returns.

    Any thread may call; the position is shared, so threads that share a file use pread and pwrite.
    """

    _handle: Optional[int] = None

    def __init__(self, cluster: "Cluster", handle: int, flags: int, path: Path) -> None:
        super().__init__()
        self._cluster = cluster
        self._handle = handle
        self._flags = flags
        self._position = 0
        self.name = path

    # ---- reading

    def readinto(self, buffer: Any) -> int:
        """Reads from the position on; fewer bytes than asked for only at the end of the file."""
        got = self.preadinto(buffer, self._position)
        self._position += got
        return got

    def preadinto(self, buffer: Any, at: int) -> int:
        """Reads into a writable buffer from `at` on, whatever the position; returns how many bytes there were."""
        view = memoryview(buffer).cast("B")
        if not view.nbytes:
            self._open_handle()
            return 0
        return self._call("pread", ctypes.byref(ctypes.c_char.from_buffer(view)), view.nbytes, offset(at))

    def pread(self, size: int, at: int) -> bytes:
        """Up to `size` bytes from `at` on, whatever the position; fewer only at the end of the file."""
        buffer = bytearray(size)
        got = self.preadinto(buffer, at)
        return bytes(buffer) if got == size else bytes(memoryview(buffer)[:got])

    def readall(self) -> bytes:
        """Everything from the position to the end."""
        pieces: list[bytes] = []
        while True:
            wanted = max(self.stat().st_size - self._position, 0) + 1  # more than there is, so that its end is seen
            piece = self.pread(wanted, self._position)
            self._position += len(piece)
            pieces.append(piece)
            if len(piece) < wanted:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # ---- writing

    def write(self, data: Any) -> int:
        """Writes all of it at the position, or at the end with O_APPEND. It is durable after fsync or close."""
        written = self.pwrite(data, self._position)
        self._position = self.stat().st_size if self._flags & os.O_APPEND else self._position + written
        return written

    def pwrite(self, data: Any, at: int) -> int:
        """Writes all of it at `at`, whatever the position; at the end with O_APPEND."""
        if isinstance(data, bytes):
            return self._pwrite(data, len(data), at)
        view = memoryview(data).cast("B")
        if view.nbytes and not view.readonly:
            return self._pwrite(ctypes.byref(ctypes.c_char.from_buffer(view)), view.nbytes, at)
        for begin in range(0, max(1, view.nbytes), _COPIED_BYTES):
            piece = bytes(view[begin:begin + _COPIED_BYTES])
            self._pwrite(piece, len(piece), at + begin)
        return view.nbytes

    def _pwrite(self, memory: Any, size: int, at: int) -> int:
        return self._call("pwrite", memory, size, offset(at))

    def truncate(self, size: Optional[int] = None) -> int:
        """Makes the file `size` bytes long, by default up to the position, which stays."""
        size = self._position if size is None else size
        self._call("ftruncate", offset(size))
        return size

    def fsync(self) -> None:
        """Returns when everything that was written to the file, through any handle, is durable."""
        self._call("fsync")

    def allocate(self, mode: int, at: int, length: int) -> None:
        """fallocate(2): 0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE with it, or FALLOC_FL_ZERO_RANGE."""
        self._call("fallocate", mode, offset(at), offset(length))

    def copy_range(self, at: int, to: "File", to_at: int, length: int) -> int:
        """Has another file of the connection share bytes of this one, on the servers; returns how many, 0 at the end."""
        return self._call("copy_file_range", offset(at), to._open_handle(), offset(to_at), offset(length))

    # ---- the position, and what the file is

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position: SEEK_SET, SEEK_CUR, SEEK_END, and SEEK_DATA or SEEK_HOLE from `place` on."""
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            self._position = self._call("lseek", offset(place), whence)
            return self._position
        if whence == os.SEEK_CUR:
            place += self._position
        elif whence == os.SEEK_END:
            place += self.stat().st_size
        elif whence != os.SEEK_SET:
            raise ValueError(f"invalid whence ({whence})")
        self._open_handle()
        self._position = offset(place)
        return self._position

    def tell(self) -> int:
        """The position."""
        self._open_handle()
        return self._position

    def stat(self) -> os.stat_result:
        """What os.fstat() says of a local file."""
        about = Stat()
        self._call("fstat", ctypes.byref(about))
        return about.result()

    def readable(self) -> bool:
        """Whether the file was opened for reading."""
        self._open_handle()
        return self._flags & os.O_ACCMODE != os.O_WRONLY

    def writable(self) -> bool:
        """Whether the file was opened for writing."""
        self._open_handle()
        return self._flags & os.O_ACCMODE != os.O_RDONLY

    def seekable(self) -> bool:
        """Always: holes and data can be looked for too."""
        self._open_handle()
        return True

    @property
    def mode(self) -> str:
        """The mode of a builtin raw file: rb, wb, ab or rb+."""
        access = self._flags & os.O_ACCMODE
        if access == os.O_RDONLY:
            return "rb"
        first = "a" if self._flags & os.O_APPEND else "r" if access == os.O_RDWR else "w"
        return first + "b" + ("+" if access == os.O_RDWR else "")

    def close(self) -> None:
        """Writes everything out and ends the handle, also when it raises what writing out says. Again: nothing happens."""
        if self.closed:
            return
        handle = self.__dict__.pop("_handle", None)  # one of the threads that close it gets it
        try:
            if handle is not None and self._cluster.usable():
                self._cluster.library.call("close", handle, path=self.name)
        finally:
            super().close()

    def __repr__(self) -> str:
        return f"<kintsugi.File {self.name!r} {'closed' if self.closed else self.mode}>"

    def _open_handle(self) -> int:
        handle = self._handle
        if handle is None:
            raise ValueError("I/O operation on closed file")
        self._cluster.check()
        return handle

    def _call(self, function: str, *arguments: Any) -> int:
        return self._cluster.library.call(function, self._open_handle(), *arguments, path=self.name)
