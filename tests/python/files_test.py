#!/usr/bin/python3
"""Files of the Python package: streams as the io module has them, and files that appear when they are whole."""

import array
import io
import os
import random
import unittest

from live import MIB, ClusterTest, live

setUpModule, tearDownModule = live.start, live.stop


class Streams(ClusterTest):
    def test_a_text_that_was_written_is_read_line_by_line(self):
        with self.cluster.open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("eins\nzwölf\n")
        with self.cluster.open(self.path("text"), encoding="utf-8") as file:
            self.assertEqual(list(file), ["eins\n", "zwölf\n"])
            self.assertEqual((file.name, file.mode), (self.path("text"), "r"))

    def test_every_mode_of_open_does_what_it_does_with_a_local_file(self):
        local = str(live.directory / "local")
        for mode in ("r", "w", "a", "x", "r+", "w+", "a+", "x+", "rt", "rb", "wb", "ab", "xb", "rb+", "w+b", "a+b", "x+b"):
            for before in (None, b"before"):
                found = []
                for opened, path in ((open, local), (self.cluster.open, self.path("f"))):
                    if before is not None:
                        with opened(path, "wb") as file:
                            file.write(before)
                    found.append(self.told_by(opened, path, mode))
                    with opened(path, "rb") as file:
                        found[-1].append(file.read())
                    (os.remove if opened is open else self.cluster.remove)(path)
                self.assertEqual(found[0], found[1], (mode, before))

    def told_by(self, opened, path, mode):
        """What a file says of itself and of calls that its mode allows or forbids; the file is there afterwards."""
        told = []
        try:
            file = opened(path, mode)
        except OSError as error:
            opened(path, "wb").close()
            return [type(error), error.errno]
        with file:
            told += [file.readable(), file.writable(), file.seekable(), file.tell()]
            for call in (lambda: file.write("ab" if "b" not in mode else b"ab"), file.flush, file.tell, lambda: file.seek(1), lambda: file.read(2), file.tell,
                         lambda: file.seek(0, 2), lambda: file.truncate(3), file.tell):
                try:
                    told.append(call())
                except (OSError, ValueError) as error:
                    told.append(isinstance(error, io.UnsupportedOperation))
        return told

    def test_invalid_modes_and_arguments_are_refused_as_open_refuses_them(self):
        for mode in ("", "rw", "z", "bt", "rr", "b"):
            with self.assertRaises(ValueError, msg=mode):
                self.cluster.open(self.path("f"), mode)
        with self.assertRaises(ValueError):
            self.cluster.open(self.path("f"), "w", 0)
        with self.assertRaises(ValueError):
            self.cluster.open(self.path("f"), "wb", encoding="utf-8")

    def test_a_random_sequence_of_calls_gives_what_a_file_in_memory_gives(self):
        seed = random.randrange(1 << 32)
        draw = random.Random(seed)
        model, where = io.BytesIO(), f"seed {seed}"
        with self.cluster.open(self.path("f"), "w+b", buffering=draw.choice((0, 100, -1))) as file:
            for step in range(300):
                call = draw.choice(("read", "write", "seek", "truncate", "tell"))
                if call == "read":
                    size = draw.choice((-1, 0, 1, 70_000))
                    self.assertEqual(file.read(size), model.read(size), f"{where}, step {step}")
                elif call == "write":
                    data = draw.randbytes(draw.choice((0, 1, 5_000, 200_000)))
                    kind = draw.choice((bytes, bytearray, memoryview))
                    self.assertEqual(file.write(kind(data)), model.write(data), f"{where}, step {step}")
                elif call == "seek":
                    place = draw.randrange(400_000)
                    self.assertEqual(file.seek(place), model.seek(place), f"{where}, step {step}")
                elif call == "truncate":
                    # A file in memory does not grow by it.
                    size = draw.randrange(len(model.getvalue()) + 1)
                    self.assertEqual(file.truncate(size), model.truncate(size), f"{where}, step {step}")
                else:
                    self.assertEqual(file.tell(), model.tell(), f"{where}, step {step}")
        self.assertEqual(self.read("f"), model.getvalue(), where)

    def test_a_big_file_is_read_whole_in_pieces_and_at_places(self):
        data = random.Random(1).randbytes(40 * MIB + 12_345)
        path = self.write("big", data)
        with self.cluster.open_raw(path) as file:
            self.assertTrue(file.readall() == data)
            into = bytearray(3 * MIB)
            self.assertEqual(file.preadinto(into, 39 * MIB), MIB + 12_345)
            self.assertTrue(into[:MIB + 12_345] == data[39 * MIB:])
            self.assertEqual(file.pread(10, 17 * MIB), data[17 * MIB:17 * MIB + 10])
            self.assertEqual(file.pread(10, len(data)), b"")
        self.assertIn(str(len(data)), live.command("stat", "--json", path))

    def test_holes_are_read_as_zeros_and_found(self):
        with self.cluster.open_raw(self.path("f"), os.O_RDWR | os.O_CREAT) as file:
            file.pwrite(b"end", 8 * MIB)
            self.assertEqual(file.stat().st_size, 8 * MIB + 3)
            self.assertLess(file.stat().st_blocks * 512, 4 * MIB)
            self.assertEqual(file.pread(4, 8 * MIB - 2), b"\0\0en")
            self.assertGreater(file.seek(0, os.SEEK_DATA), 4 * MIB)
            self.assertEqual(file.seek(0, os.SEEK_HOLE), 0)

    def test_buffers_of_every_kind_are_read_into_and_written_from(self):
        with self.cluster.open_raw(self.path("f"), os.O_RDWR | os.O_CREAT) as file:
            self.assertEqual(file.write(array.array("i", [1, 2, 3])), 12)
            self.assertEqual(file.write(memoryview(b"0123456789")[::1][2:5]), 3)
            self.assertEqual(file.write(b""), 0)
            file.seek(0)
            numbers = array.array("i", [0] * 3)
            self.assertEqual(file.readinto(numbers), 12)
            self.assertEqual(list(numbers), [1, 2, 3])
            self.assertEqual(file.read(), b"234")
            self.assertEqual(file.readinto(bytearray()), 0)
            with self.assertRaises(TypeError):
                file.readinto(b"may not be changed")
            growing = bytearray(5)
            file.preadinto(growing, 0)
            growing.extend(b"the buffer is not held after the call")

    def test_appending_files_do_not_overwrite_each_other(self):
        with self.cluster.open(self.path("f"), "ab", buffering=0) as one, self.cluster.open(self.path("f"), "ab", buffering=0) as two:
            one.write(b"one,")
            two.write(b"two,")
            one.write(b"three")
            self.assertEqual((one.tell(), two.tell()), (13, 8))
        self.assertEqual(self.read("f"), b"one,two,three")

    def test_what_was_synced_is_seen_by_others_before_the_file_is_closed(self):
        with self.cluster.open(self.path("f"), "wb") as file:
            file.write(b"synced")
            file.flush()
            file.raw.fsync()
            self.assertEqual(live.command("cat", self.path("f")), "synced")

    def test_offsets_that_c_has_no_room_for_are_refused(self):
        with self.cluster.open_raw(self.path("f"), os.O_RDWR | os.O_CREAT) as file:
            for bad, error in ((-1, ValueError), (2**63, OverflowError), (2**64, OverflowError)):
                for call in (lambda: file.pread(1, bad), lambda: file.pwrite(b"x", bad), lambda: file.truncate(bad), lambda: file.seek(bad)):
                    with self.assertRaises(error, msg=bad):
                        call()
            self.assertEqual(file.stat().st_size, 0)


class Atomic(ClusterTest):
    def test_a_file_appears_when_it_is_closed_and_not_before(self):
        path = self.write("f", b"old")
        self.cluster.chmod(path, 0o640)
        with self.cluster.open_atomic(path) as file:
            file.write(b"new" * MIB)
            file.flush()
            self.assertEqual(self.read("f"), b"old")
        self.assertTrue(self.read("f") == b"new" * MIB)
        self.assertEqual(self.cluster.stat(path).st_mode & 0o777, 0o640)
        self.assertEqual(self.cluster.listdir(self.directory), ["f"])

    def test_who_reads_the_old_file_reads_it_to_its_end(self):
        path = self.write("f", b"o" * 3 * MIB)
        with self.cluster.open(path, "rb") as reader:
            self.assertEqual(reader.read(1), b"o")
            with self.cluster.open_atomic(path) as file:
                file.write(b"new")
            self.assertTrue(reader.read() == b"o" * (3 * MIB - 1))

    def test_an_error_in_the_block_leaves_the_old_file_and_nothing_else(self):
        path = self.write("f", b"old")
        with self.assertRaises(ZeroDivisionError), self.cluster.open_atomic(path) as file:
            file.write(b"half")
            1 / 0
        self.assertEqual(self.read("f"), b"old")
        self.assertEqual(self.cluster.listdir(self.directory), ["f"])

    def test_one_of_two_that_make_a_new_file_wins_and_the_other_is_told(self):
        first, second = self.cluster.open_atomic(self.path("f"), "xb"), self.cluster.open_atomic(self.path("f"), "xb")
        first.write(b"first")
        second.write(b"second")
        first.close()
        with self.assertRaises(FileExistsError) as raised:
            second.close()
        self.assertEqual(raised.exception.filename, self.path("f"))
        with self.assertRaises(FileExistsError):
            self.cluster.open_atomic(self.path("f"), "xb")
        self.assertEqual(self.read("f"), b"first")
        self.assertEqual(self.cluster.listdir(self.directory), ["f"])

    def test_a_link_stays_a_link_and_its_target_is_replaced(self):
        self.write("target", b"old")
        self.cluster.symlink("target", self.path("link"))
        with self.cluster.open_atomic(self.path("link")) as file:
            file.write(b"new")
        self.assertEqual(self.cluster.readlink(self.path("link")), "target")
        self.assertEqual(self.read("target"), b"new")
        self.cluster.symlink("loop", self.path("loop"))
        with self.assertRaises(OSError) as raised:
            self.cluster.open_atomic(self.path("loop"))
        self.assertIn("symbolic links", str(raised.exception))

    def test_errors_name_the_path_of_the_caller(self):
        for path, error in ((self.path("no/f"), FileNotFoundError), (self.directory, IsADirectoryError)):
            with self.assertRaises(error) as raised:
                self.cluster.open_atomic(path)
            self.assertEqual(raised.exception.filename, path)

    def test_a_copy_has_the_bytes_and_the_mode_and_a_life_of_its_own(self):
        path = self.write("f", os.urandom(5 * MIB))
        self.cluster.chmod(path, 0o600)
        self.cluster.copy_file(path, self.path("copy"))
        self.assertEqual(self.cluster.stat(self.path("copy")).st_mode & 0o777, 0o600)
        before = self.read("f")
        self.write("f", b"changed")
        self.assertTrue(self.read("copy") == before)


if __name__ == "__main__":
    unittest.main()
