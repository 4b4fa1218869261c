"""Direct I/O and mappings, and what they see of one another."""

import ctypes
import itertools
import mmap
import os
import signal

import calls
from case import Case, at, object_of
from cases_data import BLOCK, layouts


def aligned(count):
    """Memory for direct I/O."""
    return mmap.mmap(-1, count)


def direct():
    for offset, count in itertools.product([0, BLOCK, 3 * BLOCK, 16 * BLOCK, 20 * BLOCK], [BLOCK, 4 * BLOCK, 16 * BLOCK]):
        for name, setup in list(layouts())[:5]:

            def both(d, o=offset, n=count):
                memory = aligned(n)
                memory.write(b"direct" + b"d" * (n - 6))
                with calls.opened(at(d, "x"), os.O_RDWR | os.O_DIRECT) as fd, calls.opened(at(d, "x"), os.O_RDWR) as buffered:
                    said = [os.pread(buffered, 10, o), calls.outcome(os.pwritev, fd, [memory], o), os.pread(buffered, 10, o)]
                    os.pwrite(buffered, b"buffered", o + 2)
                    return said + [calls.outcome(os.preadv, fd, [memory], o), memory[:20], os.fstat(fd).st_size]

            yield Case(f"O_DIRECT of {count} bytes at {offset}, data in {name}", setup, both)
    for name, setup in list(layouts())[:2]:
        for offset, count in ((0, 17 * BLOCK), (16 * BLOCK, BLOCK), (18 * BLOCK, BLOCK)):

            def end(d, o=offset, n=count):
                memory = aligned(n)
                with calls.opened(at(d, "x"), os.O_RDONLY | os.O_DIRECT) as fd:
                    return calls.outcome(os.preadv, fd, [memory], o)

            yield Case(f"O_DIRECT reads {count} bytes at {offset} to the end, data in {name}", setup, end)


def mapping():
    protections = {"read": mmap.PROT_READ, "write": mmap.PROT_WRITE, "both": mmap.PROT_READ | mmap.PROT_WRITE, "execute": mmap.PROT_READ | mmap.PROT_EXEC}
    for flags, (name, protection), (kind_name, kind) in itertools.product(
        [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND, os.O_PATH],
        protections.items(),
        {"shared": mmap.MAP_SHARED, "private": mmap.MAP_PRIVATE}.items(),
    ):

        def use(d, f=flags, p=protection, k=kind):
            with calls.opened(at(d, "x"), f) as fd:
                with mmap.mmap(fd, 7, flags=k, prot=p) as memory:
                    said = memory[:7] if p & mmap.PROT_READ else None
                    if p & mmap.PROT_WRITE:
                        memory[1:3] = b"ZZ"
                        memory.flush()
                    return said, os.pread(fd, 10, 0) if f & 3 != os.O_WRONLY else None

        yield Case(f"a {kind_name} mapping to {name}, opened with {flags:o}", object_of("file"), use)

    def beyond(d):
        def run():
            with calls.opened(at(d, "x"), os.O_RDWR) as fd:
                libc = calls.ctypes.CDLL(None, use_errno=True)
                libc.mmap.restype = ctypes.c_void_p
                libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
                where = libc.mmap(None, 3 * BLOCK, 3, mmap.MAP_SHARED, fd, 0)
                said = ctypes.string_at(where, 10)
                os.write(2, b"")
                ctypes.memmove(where + 2 * BLOCK, b"x", 1)
                return said

        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        return calls.in_child(run)

    yield Case("a mapping behind the end", object_of("file"), beyond)

    def tail(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            with mmap.mmap(fd, 7) as memory:
                os.ftruncate(fd, 3)
                said = memory[:7]
                os.ftruncate(fd, 7)
                return said, memory[:7], os.pread(fd, 10, 0)

    yield Case("a mapping of a file that is cut and grows again", object_of("file"), tail)

    def coherent(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            os.ftruncate(fd, 3 * BLOCK)
            with mmap.mmap(fd, 3 * BLOCK) as memory:
                memory[BLOCK : BLOCK + 5] = b"mmap "
                os.pwrite(fd, b"write", BLOCK + 5)
                said = [os.pread(fd, 10, BLOCK), memory[BLOCK : BLOCK + 10]]
                calls.fallocate(fd, 3, BLOCK, BLOCK)
                said += [memory[BLOCK : BLOCK + 10], os.pread(fd, 5, BLOCK)]
                memory[0:3] = b"end"
            os.close(os.dup(fd))
            return said + [os.pread(fd, 7, 0)]

    yield Case("a mapping, writes and a hole", object_of("file"), coherent)

    def after_close(d):
        with calls.opened(at(d, "x"), os.O_RDWR) as fd:
            memory = mmap.mmap(fd, 7)
        os.unlink(at(d, "x"))
        memory[:3] = b"new"
        memory.flush()
        said = memory[:7]
        memory.close()
        return said

    yield Case("a mapping of a file that is closed and removed", object_of("file"), after_close)
    for kind in ("dir", "fifo"):
        yield Case(f"a mapping of a {kind}", object_of(kind), lambda d: mmap.mmap(os.open(at(d, "x"), os.O_RDONLY | os.O_NONBLOCK), 10, prot=mmap.PROT_READ))


FAMILIES = {"direct": direct, "mapping": mapping}
