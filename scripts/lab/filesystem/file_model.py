"""A file on two mounts and a model of it in memory: random operations on both, and whatever differs."""

import collections
import mmap
import os
import random
import shutil

import calls

PAGE = 4096
DESCRIPTORS = {
    "buffered": os.O_RDWR,
    "another": os.O_RDWR,
    "direct": os.O_RDWR | os.O_DIRECT,
    "synced": os.O_RDWR | os.O_SYNC,
    "appending": os.O_RDWR | os.O_APPEND,
}


class Wrong(Exception):
    pass


class Model:
    """What a file must hold."""

    def __init__(self):
        self.bytes = bytearray()

    def write(self, offset, data):
        if len(self.bytes) < offset + len(data):
            self.resize(offset + len(data))
        self.bytes[offset : offset + len(data)] = data

    def resize(self, size):
        if size < len(self.bytes):
            del self.bytes[size:]
        else:
            self.bytes.extend(bytes(size - len(self.bytes)))

    def zero(self, offset, length):
        end = min(offset + length, len(self.bytes))
        if offset < end:
            self.bytes[offset:end] = bytes(end - offset)


def compare(found, expected, offset, how):
    if found == expected:
        return
    if len(found) != len(expected):
        raise Wrong(f"{how} at {offset}: {len(found)} bytes, not {len(expected)}")
    wrong = [i for i in range(len(found)) if found[i] != expected[i]]
    zeros = sum(1 for i in wrong if found[i] == 0)
    raise Wrong(f"{how} at {offset}: {len(wrong)} of {len(found)} bytes differ, from {offset + wrong[0]} to {offset + wrong[-1]}; {zeros} of them are 0")


class Stress:
    def __init__(self, seed, mounts, most):
        self.rng = random.Random(seed)
        self.most = most
        self.roots = [mount / f"seed-{seed}" for mount in mounts]
        self.roots[0].mkdir()
        self.name = "file"
        self.model, self.other = Model(), Model()
        self.log = collections.deque(maxlen=40)
        self.open()
        self.operations = [
            (self.read, 6),
            (self.read_direct, 2),
            (self.read_mapped, 3),
            (self.write, 8),
            (self.write_direct, 3),
            (self.append, 2),
            (self.write_mapped, 4),
            (self.truncate, 2),
            (self.allocate, 1),
            (self.punch, 2),
            (self.zero, 2),
            (self.copy_within, 2),
            (self.copy_from_other, 1),
            (self.copy_to_other, 1),
            (self.sync, 2),
            (self.drop_pages, 1),
            (self.reopen, 1),
            (self.rename, 1),
            (self.holes, 1),
            (self.look, 1),
            (self.everything, 1),
        ]

    def path(self, mount=0):
        return self.roots[mount] / self.name

    def open(self):
        self.fds = {name: os.open(self.path(), flags | os.O_CREAT | os.O_CLOEXEC, 0o644) for name, flags in DESCRIPTORS.items()}
        self.other_fd = os.open(self.roots[0] / "other", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.mapping = None

    def close(self):
        self.unmap()
        for fd in (*self.fds.values(), self.other_fd):
            os.close(fd)

    # ---- what is drawn

    def buffered(self):
        return self.fds[self.rng.choice(["buffered", "another", "synced"])] if self.rng.random() < 0.3 else self.fds["buffered"]

    def place(self):
        size = len(self.model.bytes)
        return self.rng.randrange(size + 1) if self.rng.random() < 0.8 else self.rng.randrange(self.most)

    def length(self, offset):
        length = self.rng.choice([1, 10, 500, 5000, 70_000, 300_000])
        return max(1, min(self.rng.randrange(1, length + 1), self.most - offset))

    def pages(self):
        offset = self.place() // PAGE * PAGE
        return offset, min((self.length(offset) + PAGE - 1) // PAGE * PAGE, max(PAGE, (self.most - offset) // PAGE * PAGE))

    def data(self, length):
        return self.rng.randbytes(length)

    def note(self, *words):
        self.log.append(" ".join(map(str, words)))

    # ---- operations

    def read(self):
        offset = self.place()
        length = self.length(offset)
        self.note("read", offset, length)
        compare(os.pread(self.buffered(), length, offset), bytes(self.model.bytes[offset : offset + length]), offset, "read")

    def read_direct(self):
        offset, length = self.pages()
        self.note("read direct", offset, length)
        self.flush_mapping()
        memory = mmap.mmap(-1, length)
        got = os.preadv(self.fds["direct"], [memory], offset)
        compare(memory[:got], bytes(self.model.bytes[offset : offset + length]), offset, "direct read")

    def write(self):
        offset = self.place()
        data = self.data(self.length(offset))
        self.note("write", offset, len(data))
        if os.pwrite(self.buffered(), data, offset) != len(data):
            raise Wrong("a write is short")
        self.model.write(offset, data)

    def write_direct(self):
        offset, length = self.pages()
        self.note("write direct", offset, length)
        self.flush_mapping()
        memory = mmap.mmap(-1, length)
        memory[:] = self.data(length)
        if os.pwritev(self.fds["direct"], [memory], offset) != length:
            raise Wrong("a direct write is short")
        self.model.write(offset, memory[:])

    def append(self):
        data = self.data(min(self.length(0), 20_000))
        if len(self.model.bytes) + len(data) > self.most:
            return
        self.note("append", len(data))
        os.write(self.fds["appending"], data)
        self.model.write(len(self.model.bytes), data)

    def mapped(self):
        """A mapping of the whole file, which stays until the file is cut."""
        if self.mapping is None or len(self.mapping) < len(self.model.bytes):
            self.unmap()
            if self.model.bytes:
                self.mapping = mmap.mmap(self.fds["buffered"], len(self.model.bytes))
        return self.mapping

    def unmap(self):
        if self.mapping is not None:
            self.mapping.close()
        self.mapping = None

    def flush_mapping(self):
        """Direct I/O and mappings are coherent once what was mapped is written."""
        if self.mapping is not None:
            self.mapping.flush()

    def read_mapped(self):
        if not (memory := self.mapped()):
            return
        offset = self.rng.randrange(len(self.model.bytes))
        length = self.length(offset)
        self.note("read mapped", offset, length)
        end = min(offset + length, len(self.model.bytes))
        compare(memory[offset:end], bytes(self.model.bytes[offset:end]), offset, "mapped read")

    def write_mapped(self):
        if not (memory := self.mapped()):
            return
        offset = self.rng.randrange(len(self.model.bytes))
        data = self.data(min(self.length(offset), len(self.model.bytes) - offset))
        self.note("write mapped", offset, len(data))
        memory[offset : offset + len(data)] = data
        self.model.write(offset, data)

    def truncate(self):
        size = self.rng.randrange(self.most) if self.rng.random() < 0.3 else self.rng.randrange(len(self.model.bytes) + 1)
        by_path = self.rng.random() < 0.3
        self.note("truncate", "by path" if by_path else "", size)
        if size < len(self.model.bytes):
            self.unmap()
        os.truncate(self.path() if by_path else self.buffered(), size)
        self.model.resize(size)

    def allocate(self):
        offset = self.place()
        length, keep = self.length(offset), self.rng.random() < 0.5
        self.note("allocate", offset, length, "keep size" if keep else "")
        calls.fallocate(self.buffered(), calls.KEEP_SIZE if keep else 0, offset, length)
        if not keep and offset + length > len(self.model.bytes):
            self.model.resize(offset + length)

    def punch(self):
        offset = self.place()
        length = self.length(offset)
        self.note("punch", offset, length)
        calls.fallocate(self.buffered(), calls.PUNCH_HOLE | calls.KEEP_SIZE, offset, length)
        self.model.zero(offset, length)

    def zero(self):
        offset = self.place()
        length, keep = self.length(offset), self.rng.random() < 0.5
        self.note("zero", offset, length, "keep size" if keep else "")
        calls.fallocate(self.buffered(), calls.ZERO_RANGE | (calls.KEEP_SIZE if keep else 0), offset, length)
        if not keep and offset + length > len(self.model.bytes):
            self.model.resize(offset + length)
        self.model.zero(offset, length)

    def copy(self, source, at, target, to, length, from_fd, to_fd):
        done, length = 0, max(0, min(length, len(source.bytes) - at))
        while done < length and (copied := calls.copy_file_range(from_fd, at + done, to_fd, to + done, length - done)) > 0:
            done += copied
        data = bytes(source.bytes[at : at + length])
        if done != len(data):
            raise Wrong(f"copy_file_range copied {done} bytes, not {len(data)}")
        if data:
            target.write(to, data)

    def copy_within(self):
        at, to = self.place(), self.place()
        length = min(self.length(at), self.length(to), abs(at - to))
        if length == 0:
            return
        self.note("copy", at, to, length)
        self.copy(self.model, at, self.model, to, length, self.buffered(), self.fds["another"])

    def copy_from_other(self):
        at, to = self.rng.randrange(len(self.other.bytes) + 1), self.place()
        length = self.length(to)
        self.note("copy from the other file", at, to, length)
        self.copy(self.other, at, self.model, to, length, self.other_fd, self.buffered())

    def copy_to_other(self):
        at, to = self.place(), self.rng.randrange(len(self.other.bytes) + 1)
        length = self.length(to)
        self.note("copy to the other file", at, to, length)
        self.copy(self.model, at, self.other, to, length, self.buffered(), self.other_fd)

    def sync(self):
        how = self.rng.choice(["fsync", "fdatasync", "msync"])
        self.note(how)
        if how == "msync":
            self.flush_mapping()
        else:
            getattr(os, how)(self.buffered())

    def drop_pages(self):
        self.note("drop pages")
        os.posix_fadvise(self.fds["buffered"], 0, 0, os.POSIX_FADV_DONTNEED)

    def reopen(self):
        self.note("close and open")
        self.close()
        self.open()

    def rename(self):
        name = f"file-{self.rng.randrange(5)}"
        if name == self.name:
            return
        self.note("rename to", name)
        os.rename(self.path(), self.roots[0] / name)
        self.name = name

    def holes(self):
        """Where a hole is said to be, there are zeros."""
        self.note("look for holes")
        offset, size, fd = 0, len(self.model.bytes), self.fds["buffered"]
        self.flush_mapping()
        while offset < size:
            hole = os.lseek(fd, offset, os.SEEK_HOLE)
            data = calls.outcome(os.lseek, fd, hole, os.SEEK_DATA) if hole < size else size
            end = size if data == "ENXIO" else data
            if not offset <= hole <= end <= size or (end == hole and hole < size):
                raise Wrong(f"a hole from {hole} to {end}, looked for from {offset}, of {size} bytes")
            compare(bytes(self.model.bytes[hole:end]), bytes(end - hole), hole, "what is said to be a hole")
            offset = end

    def look(self):
        self.note("look")
        size = os.stat(self.path()).st_size
        if size != len(self.model.bytes) or os.fstat(self.fds["another"]).st_size != size:
            raise Wrong(f"a size of {size}, not {len(self.model.bytes)}")

    def everything(self):
        """Closes everything and compares on both mounts."""
        self.note("compare everything")
        self.close()
        for mount in (1, 0):
            compare(self.path(mount).read_bytes(), bytes(self.model.bytes), 0, f"mount {mount + 1}")
            compare((self.roots[mount] / "other").read_bytes(), bytes(self.other.bytes), 0, f"the other file, mount {mount + 1}")
        self.open()

    def run(self, operations):
        functions, weights = zip(*self.operations)
        for number in range(operations):
            try:
                self.rng.choices(functions, weights)[0]()
            except (Wrong, OSError) as error:
                return f"operation {number}: {type(error).__name__}: {error}\n    " + "\n    ".join(self.log)
        self.everything()
        self.close()
        shutil.rmtree(self.roots[0])
        return None
