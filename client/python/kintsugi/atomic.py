"""Files that appear under their name only when they are whole and durable."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import posixpath
import secrets
import stat
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from kintsugi.cluster import Cluster
    from kintsugi.file import File

_BUFFER_BYTES = 1 << 20
_MOST_LINKS = 40


class AtomicFile(io.BufferedWriter):
    """A buffered writer to a hidden file beside `path`, which takes that name when it is closed, durable by then.

    Readers see the old file or the new one. An exception inside `with` discards what was written. With `publish=False`
    closing does not publish: commit() or discard() come later.
    """

    def __init__(self, cluster: "Cluster", raw: "File", hidden: str, target: str, exclusive: bool, publish: bool) -> None:
        super().__init__(raw, _BUFFER_BYTES)
        self._cluster = cluster
        self._hidden: Optional[str] = hidden
        self._target = target
        self._exclusive = exclusive
        self._publish = publish

    def close(self) -> None:
        """Makes everything durable and publishes it; on an error the old file stays. Again: nothing happens."""
        if self.closed:
            return
        try:
            if self._publish:
                self.commit()
            else:
                super().close()
        except BaseException:
            self.discard()
            raise

    def commit(self) -> None:
        """Closes the file and gives it its name. FileExistsError: it was to be a new one, and somebody was faster."""
        super().close()
        hidden, self._hidden = self._hidden, None
        if hidden is None or not self._cluster.usable():
            return
        try:
            if self._exclusive:
                self._cluster.rename(hidden, self._target, replace=False)
            else:
                self._keep_mode(hidden)
                self._cluster.rename(hidden, self._target)
        except OSError as error:
            self._hidden = hidden
            raise OSError(error.errno, error.strerror, self._target) from None

    def discard(self) -> None:
        """Closes the file and forgets what was written; the old file stays."""
        self._publish = False
        hidden, self._hidden = self._hidden, None
        with contextlib.suppress(OSError, ValueError):
            self.raw.close()
        if hidden is not None and self._cluster.usable():
            with contextlib.suppress(OSError, ValueError):
                self._cluster.remove(hidden)

    def _keep_mode(self, hidden: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            old = stat.S_IMODE(self._cluster.stat(self._target).st_mode)
            if old != stat.S_IMODE(self._cluster.stat(hidden).st_mode):
                self._cluster.chmod(hidden, old)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            self.discard()
        self.close()


def open_atomic(cluster: "Cluster", path: str, *, exclusive: bool = False, publish: bool = True, permissions: int = 0o666) -> AtomicFile:
    """Begins a file: `exclusive` is for one that must be new, `publish` is what closing it does."""
    target = _target_of(cluster, path, exclusive)
    hidden = posixpath.join(posixpath.dirname(target), f".kintsugi-{secrets.token_hex(8)}.part")
    try:
        raw = cluster.open_raw(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    raw.name = path
    return AtomicFile(cluster, raw, hidden, target, exclusive, publish)


def _target_of(cluster: "Cluster", path: str, exclusive: bool) -> str:
    """Where the file will be: symbolic links at the end of the path are followed, as open() does."""
    target = path
    for _ in range(_MOST_LINKS):
        try:
            mode = cluster.lstat(target).st_mode
        except FileNotFoundError:
            return target
        if exclusive:
            raise FileExistsError(errno.EEXIST, "already exists", path)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if not stat.S_ISLNK(mode):
            return target
        target = posixpath.join(posixpath.dirname(target), cluster.readlink(target))
    raise OSError(errno.ELOOP, "too many symbolic links", path)
