#!/usr/bin/python3
"""The Python package when things end: threads that share a connection, closing, forked processes, servers that die."""

import gc
import os
import random
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from live import MIB, ClusterTest, kintsugi, live, run_python

setUpModule, tearDownModule = live.start, live.stop


class Threads(ClusterTest):
    def test_many_threads_share_a_connection_and_a_file(self):
        data = random.Random(7).randbytes(4 * MIB)
        with self.cluster.open_raw(self.path("shared"), os.O_RDWR | os.O_CREAT) as file:
            pieces = range(0, len(data), 64 << 10)
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda at: file.pwrite(data[at:at + (64 << 10)], at), pieces))
                read = list(pool.map(lambda at: file.pread(64 << 10, at), pieces))
        self.assertTrue(b"".join(read) == data)

    def test_threads_write_and_read_files_of_their_own(self):
        def work(number):
            for turn in range(3):
                self.write(f"{number}-{turn}", str(number).encode() * 10_000)
            return [self.read(f"{number}-{turn}") == str(number).encode() * 10_000 for turn in range(3)]

        with ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(work, range(8))), [[True] * 3] * 8)
        self.assertEqual(len(self.cluster.listdir(self.directory)), 24)

    def test_other_threads_run_while_one_waits_for_the_cluster(self):
        turns = 0
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: self.assertRaises(OSError, kintsugi.connect, "127.0.0.1:1", connect_timeout=1))
            while not waiting.done():
                turns += 1
        self.assertGreater(turns, 1000)

    def test_closing_in_many_threads_at_once_closes_once(self):
        for _ in range(20):
            file = self.cluster.open_raw(self.path("f"), os.O_RDWR | os.O_CREAT)
            barrier = threading.Barrier(4)
            with ThreadPoolExecutor(4) as pool:
                for done in [pool.submit(lambda: (barrier.wait(), file.close())) for _ in range(4)]:
                    done.result()
            self.assertTrue(file.closed)


class Closing(ClusterTest):
    def test_closing_again_does_nothing_and_use_afterwards_is_an_error(self):
        file = self.cluster.open(self.path("f"), "w+b")
        raw = file.raw
        file.close()
        file.close()
        for call in (lambda: file.read(), lambda: raw.read(1), lambda: raw.pread(1, 0), lambda: raw.write(b"x"), lambda: raw.seek(0), lambda: raw.tell(),
                     lambda: raw.stat(), lambda: raw.truncate(0), lambda: raw.fsync(), lambda: raw.readable(), lambda: raw.readinto(bytearray())):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()
        self.assertIn("closed", repr(raw))
        cluster = kintsugi.connect()
        cluster.close()
        cluster.close()
        self.assertTrue(cluster.closed)
        for call in (cluster.listdir, lambda: cluster.open("/f"), lambda: cluster.stat("/"), cluster.usage, lambda: cluster.rename("/a", "/b")):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()

    def test_what_was_written_before_the_connection_is_closed_is_stored_and_the_rest_is_an_error(self):
        cluster = kintsugi.connect()
        file = cluster.open(self.path("f"), "wb", buffering=0)
        file.write(b"stored")
        scan = cluster.scandir("/")
        cluster.close()
        self.assertEqual(self.read("f"), b"stored")
        with self.assertRaisesRegex(ValueError, "closed"):
            file.write(b"late")
        with self.assertRaisesRegex(ValueError, "closed"):
            next(scan)
        scan.close()
        file.close()

    def test_files_and_connections_that_nobody_holds_are_closed(self):
        cluster = kintsugi.connect()
        cluster.open(self.path("f"), "wb").write(b"flushed")
        gc.collect()
        self.assertEqual(self.read("f"), b"flushed")
        file = cluster.open(self.path("f"), "rb")
        del cluster
        gc.collect()
        self.assertEqual(file.read(), b"flushed", "a file keeps its connection")

    def test_a_program_that_ends_without_closing_stores_what_it_wrote(self):
        ended = run_python("import kintsugi, sys; file = kintsugi.connect().open(sys.argv[1], 'w'); file.write('stored at exit')", self.path("f"))
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(self.read("f"), b"stored at exit")

    def test_a_program_that_is_killed_leaves_the_old_file_under_its_name(self):
        path = self.write("f", b"old")
        ended = run_python("import kintsugi, os, sys\nfile = kintsugi.connect().open_atomic(sys.argv[1])\nfile.write(b'x' * (8 << 20))\nos.kill(os.getpid(), 9)", path)
        self.assertEqual(ended.returncode, -9)
        self.assertEqual(self.read("f"), b"old")

    def test_without_the_library_the_import_works_and_connecting_says_what_to_do(self):
        ended = run_python("import kintsugi\ntry: kintsugi.connect()\nexcept ImportError as error: print(error)", KINTSUGI_LIBRARY="/no/lib.so")
        self.assertRegex(ended.stdout, r"^the library of Kintsugi cannot be loaded \(/no/lib.so: .*\): install libkintsugi1, or name .* in KINTSUGI_LIBRARY\n$")


class Forks(ClusterTest):
    def in_child(self, work):
        """What a child of fork() says of `work`: its result or its error."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                said = repr(work())
            except BaseException as error:
                said = repr(error)
            os.write(writer, said.encode())
            os._exit(0)
        os.close(writer)
        with open(reader) as told:
            said = told.read()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        return said

    def test_a_child_is_told_that_connections_and_files_are_those_of_its_parent(self):
        path = self.write("f", b"of the parent")
        file = self.cluster.open_raw(path)
        for call in (lambda: self.cluster.listdir("/"), lambda: file.read(1), lambda: file.tell(), lambda: next(self.cluster.scandir("/"))):
            self.assertIn("belongs to the parent process: call kintsugi.connect() after fork()", self.in_child(call))

    def test_what_a_child_closes_or_forgets_stays_open_in_the_parent(self):
        self.write("f", b"of the parent")
        reading, writing = self.cluster.open(self.path("f"), "rb"), self.cluster.open(self.path("g"), "wb")
        atomic = self.cluster.open_atomic(self.path("h"))
        writing.write(b"once")
        atomic.write(b"once")

        def close_all():
            reading.close()
            for file in (writing.raw, atomic.raw):
                file.close()
            atomic.discard()
            self.cluster.close()
            gc.collect()

        self.assertEqual(self.in_child(close_all), "None")
        self.assertEqual(reading.read(), b"of the parent")
        writing.close()
        atomic.close()
        self.assertEqual((self.read("g"), self.read("h")), (b"once", b"once"))

    def test_a_child_that_connects_itself_reads_and_writes(self):
        self.write("f", b"of the parent")

        def work():
            with kintsugi.connect() as own, own.open(self.path("f"), "rb") as old, own.open(self.path("g"), "wb") as new:
                new.write(old.read())
            return "well"

        self.assertEqual(self.in_child(work), "'well'")
        self.assertEqual(self.read("g"), b"of the parent")

    def test_a_child_that_ends_as_python_ends_writes_nothing_of_its_parent(self):
        program = ("import kintsugi, os, sys\ncluster = kintsugi.connect()\nfile = cluster.open(sys.argv[1], 'w')\nfile.write('once')\n"
                   "child = os.fork()\nif child == 0: sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))")
        ended = run_python(program, self.path("f"))
        self.assertEqual((ended.returncode, ended.stdout), (0, "3\n"), ended.stderr)
        self.assertEqual(self.read("f"), b"once")


class Failures(ClusterTest):
    def tearDown(self):
        live.start()
        super().tearDown()

    def test_reading_goes_on_when_a_chunkserver_is_killed(self):
        data = random.Random(3).randbytes(24 * MIB)
        path = self.write("f", data)
        with kintsugi.connect(read_ahead_bytes=0) as other, other.open_raw(path) as file:
            read = [file.read(MIB)]
            live.kill("chunkserver-1")
            while piece := file.read(MIB):
                read.append(piece)
        self.assertTrue(b"".join(read) == data)

    def test_open_files_survive_a_restart_of_the_metaserver(self):
        path = self.write("f", b"a" * MIB)
        with self.cluster.open(path, "r+b", buffering=0) as file:
            self.assertEqual(file.read(1), b"a")
            live.kill("metaserver")
            restarting = threading.Thread(target=live.start)
            restarting.start()
            self.assertEqual(file.write(b"b"), 1)
            file.fsync()
            self.assertEqual(file.pread(3, 0), b"aba")
            restarting.join()

    def test_a_metaserver_that_is_away_for_longer_than_io_timeout_is_one_error_and_then_all_is_well(self):
        path = self.write("f", b"")
        with kintsugi.connect(io_timeout=1) as impatient:
            live.kill("metaserver")
            with self.assertRaises(OSError) as raised:
                impatient.mkdir(self.path("d"))
            self.assertRegex(str(raised.exception), r"^\[Errno \d+\] [^\n]+$")
            live.start()
            self.assertTrue(impatient.isfile(path))


if __name__ == "__main__":
    unittest.main()
