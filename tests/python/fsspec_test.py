#!/usr/bin/python3
"""The filesystem kintsugi:// of fsspec."""

import contextlib
import os
import pickle
import random
import shutil
import threading
import unittest

from live import MIB, ClusterTest, live, require

require(["fsspec"], "python3-fsspec")

import fsspec  # noqa: E402
from fsspec.implementations.local import LocalFileSystem  # noqa: E402

from kintsugi.fs import KintsugiFileSystem  # noqa: E402

setUpModule, tearDownModule = live.start, live.stop
# The wheel does it by an entry point, which tests/python/wheel_test.py tries.
fsspec.register_implementation("kintsugi", KintsugiFileSystem, clobber=True)


class FileSystemTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.fs = fsspec.filesystem("kintsugi")

    def url(self, name):
        return f"kintsugi://{self.path(name)}"


class Addresses(FileSystemTest):
    def test_three_slashes_are_the_cluster_of_the_environment_and_a_host_with_a_port_another(self):
        self.write("f", b"1")
        meta = os.environ["KINTSUGI_META"]
        for url, address in ((f"kintsugi://{self.path('f')}", None), (f"kintsugi://{meta}{self.path('f')}", meta)):
            fs, path = fsspec.core.url_to_fs(url)
            self.assertEqual((fs.address, path, fs.cat(path)), (address, self.path("f"), b"1"))
            self.assertEqual(fs.unstrip_protocol(path), url)
        with self.assertRaisesRegex(ValueError, "data is not host:port; .* has three slashes: kintsugi:///data/f"):
            fsspec.open("kintsugi://data/f")

    def test_paths_are_the_same_with_and_without_their_slashes(self):
        for path in ("a/b", "/a/b", "/a/b/", "kintsugi:///a/b", "kintsugi://[::1]:9600/a/b", "kintsugi://meta:9600/a/b/"):
            self.assertEqual(KintsugiFileSystem._strip_protocol(path), "/a/b", path)
        for path in ("", "/", "kintsugi://", "kintsugi:///", "kintsugi://meta:1"):
            self.assertEqual(KintsugiFileSystem._strip_protocol(path), "/", path)

    def test_instances_with_the_same_options_share_a_connection_in_all_threads(self):
        found = [self.fs.cluster]
        thread = threading.Thread(target=lambda: found.append(fsspec.filesystem("kintsugi").cluster))
        thread.start()
        thread.join()
        self.assertIs(found[0], found[1])
        self.assertIsNot(fsspec.filesystem("kintsugi", umask=0o077).cluster, found[0])
        fsspec.filesystem("kintsugi", umask=0o077).pipe(self.path("f"), b"")
        self.assertEqual(self.fs.info(self.path("f"))["mode"] & 0o777, 0o600)

    def test_it_is_pickled_and_used_in_a_child_of_fork(self):
        self.fs.pipe(self.path("f"), b"1")
        self.assertEqual(pickle.loads(pickle.dumps(self.fs)).cat(self.path("f")), b"1")
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                self.fs.pipe(self.path("g"), self.fs.cat(self.path("f")) + b"2")
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(self.fs.cat(self.path("g")), b"12")


class AsALocalFileSystem(FileSystemTest):
    """Both get the same tree and the same calls, and give the same answers."""

    NAMES = ["a/one", "a/two.csv", "a/b/three.csv", "a/b/.hidden", "a/b/c/d/four", "e/five.csv", "six", "ünï/seven"]

    def setUp(self):
        super().setUp()
        self.local, self.top = LocalFileSystem(), str(live.directory / self.directory[1:])
        self.addCleanup(shutil.rmtree, self.top)
        for name in self.NAMES:
            for fs, top in self.both():
                fs.makedirs(os.path.dirname(f"{top}/{name}"), exist_ok=True)
                fs.pipe(f"{top}/{name}", name.encode() * 100)
            self.fs.makedirs(self.path("empty"), exist_ok=True)
            self.local.makedirs(f"{self.top}/empty", exist_ok=True)

    def both(self):
        return (self.fs, self.directory), (self.local, self.top)

    def assert_same(self, call):
        answers = []
        for fs, top in self.both():
            try:
                answer = call(fs, top)
            except OSError as error:
                answer = type(error)
            answers.append(repr(answer).replace(top, "TOP"))
        self.assertEqual(*answers)
        return answers[0]

    def test_listings_searches_and_sums(self):
        for call in (lambda fs, top: sorted(fs.ls(top, detail=False)), lambda fs, top: fs.find(top), lambda fs, top: fs.find(top, withdirs=True),
                     lambda fs, top: fs.find(top, maxdepth=2), lambda fs, top: fs.glob(top + "/*"), lambda fs, top: fs.glob(top + "/**/*.csv"),
                     lambda fs, top: fs.glob(top + "/a/?[nw]*"), lambda fs, top: fs.du(top), lambda fs, top: fs.du(top, total=False),
                     lambda fs, top: sorted((where, sorted(below), sorted(files)) for where, below, files in fs.walk(top)),
                     lambda fs, top: fs.expand_path(top + "/a", recursive=True),
                     lambda fs, top: fs.cat(top + "/a", recursive=True), lambda fs, top: fs.sizes([top + "/six", top + "/e/five.csv"])):
            self.assert_same(call)

    def test_what_is_there(self):
        os.symlink("six", f"{self.top}/link")
        os.symlink("nowhere", f"{self.top}/broken")
        self.cluster.symlink("six", self.path("link"))
        self.cluster.symlink("nowhere", self.path("broken"))
        for name in ("", "a", "six", "no", "six/below", "empty", "link", "broken"):
            for asked in ("exists", "isdir", "isfile", "lexists"):
                self.assert_same(lambda fs, top: getattr(fs, asked)(f"{top}/{name}"))
        for name in ("six", "link"):
            self.assert_same(lambda fs, top: [fs.info(f"{top}/{name}")[field] for field in ("name", "size", "type", "islink", "mode", "uid", "gid", "nlink")])
        self.assertEqual(self.fs.info(self.path("link"))["destination"], "six")
        self.assertEqual(self.fs.info(self.path("broken"))["type"], "other")

    def test_changes(self):
        for call in (lambda fs, top: fs.mkdir(top + "/new/deep"), lambda fs, top: fs.mkdir(top + "/new"), lambda fs, top: fs.mkdir(top + "/no/p", create_parents=False),
                     lambda fs, top: fs.makedirs(top + "/new", exist_ok=True), lambda fs, top: fs.makedirs(top + "/new"), lambda fs, top: fs.rmdir(top + "/new/deep"),
                     lambda fs, top: fs.rmdir(top + "/a"), lambda fs, top: fs.touch(top + "/touched"), lambda fs, top: fs.touch(top + "/six", truncate=False),
                     lambda fs, top: fs.mv(top + "/six", top + "/moved"),
                     lambda fs, top: fs.copy(top + "/a", top + "/copy", recursive=True), lambda fs, top: fs.copy(top + "/e/five.csv", top + "/e/six.csv"),
                     lambda fs, top: fs.rm(top + "/a/one"), lambda fs, top: fs.rm(top + "/a", recursive=True), lambda fs, top: fs.rm(top + "/no"),
                     lambda fs, top: fs.rm([top + "/e/five.csv", top + "/touched"]), lambda fs, top: fs.rm(top + "/e"), lambda fs, top: fs.copy(top + "/no", top + "/x")):
            self.assert_same(call)
            self.assert_same(lambda fs, top: fs.find(top, withdirs=True))
            self.assert_same(lambda fs, top: fs.cat(top, recursive=True))

    def test_a_file_is_moved_into_a_directory_and_listed_as_itself(self):
        self.fs.mv(self.path("six"), self.path("empty"))
        self.assertEqual(self.fs.ls(self.path("empty/six"), detail=False), [self.path("empty/six")])
        self.fs.mv(self.path("a"), self.path("empty"))
        self.assertEqual(self.fs.cat(self.path("empty/a/one")), b"a/one" * 100)

    def test_reads_and_writes(self):
        for call in (lambda fs, top: fs.cat_file(top + "/six", 3, 9), lambda fs, top: fs.cat_file(top + "/six", -9, -3), lambda fs, top: fs.head(top + "/six", 5),
                     lambda fs, top: fs.tail(top + "/six", 5), lambda fs, top: fs.cat_ranges([top + "/six"] * 2, [0, 5], [3, 8]), lambda fs, top: fs.read_text(top + "/six"),
                     lambda fs, top: fs.write_text(top + "/text", "tëxt"), lambda fs, top: fs.open(top + "/no"), lambda fs, top: fs.open(top + "/no/w", "wb"),
                     lambda fs, top: fs.open(top + "/a", "wb"), lambda fs, top: fs.open(top + "/a", "rb")):
            self.assert_same(call)
        self.assert_same(lambda fs, top: fs.cat(top, recursive=True))

    def test_trees_are_put_and_got(self):
        self.fs.put(self.top, self.path("put"), recursive=True)
        self.fs.get(self.path("put"), f"{self.top}/got", recursive=True)
        for name in self.NAMES:
            with open(f"{self.top}/got/{name}", "rb") as file:
                self.assertEqual(file.read(), name.encode() * 100)


class Files(FileSystemTest):
    def test_every_cache_of_fsspec_reads_the_same_bytes(self):
        data = random.Random(5).randbytes(3 * MIB + 17)
        path = self.write("f", data)
        for kind in ("none", "readahead", "bytes", "mmap", "all"):
            draw = random.Random(6)
            with self.fs.open(path, "rb", cache_type=kind, block_size=100_000) as file:
                for _ in range(20):
                    place, size = draw.randrange(len(data)), draw.choice((1, 1000, MIB))
                    file.seek(place)
                    self.assertTrue(file.read(size) == data[place:place + size], f"{kind} at {place}, {size} bytes")
                file.seek(0)
                self.assertTrue(file.read() == data, kind)
            self.assertTrue(file.closed)

    def test_a_file_that_is_replaced_is_read_to_its_end_as_it_was(self):
        path = self.write("f", b"o" * 2 * MIB)
        with self.fs.open(path, block_size=1000) as file:
            self.assertEqual(file.read(1), b"o")
            self.fs.pipe(path, b"new")
            self.assertTrue(file.read() == b"o" * (2 * MIB - 1))
        self.assertEqual(self.fs.cat(path), b"new")

    def test_what_is_written_is_there_when_it_is_closed_and_not_before(self):
        path = self.write("f", b"old")
        for mode, data in (("wb", b"new"), ("w", "new")):
            self.fs.pipe(path, b"old")
            with self.fs.open(path, mode) as file:
                file.write(data)
                file.flush()
                self.assertEqual(self.fs.cat(path), b"old")
            self.assertEqual(self.fs.cat(path), b"new")
        self.assertEqual(self.fs.ls(self.directory, detail=False), [path])

    def test_other_modes_append_change_and_make(self):
        path = self.path("f")
        with self.fs.open(path, "xb") as file:
            file.write(b"made,")
        with self.fs.open(path, "ab") as file:
            file.write(b"appended")
        with self.fs.open(path, "r+b") as file:
            file.write(b"M")
        self.assertEqual(self.fs.cat(path), b"Made,appended")
        with self.assertRaises(FileExistsError):
            self.fs.open(path, "xb")

    def test_compressed_files_are_written_and_read(self):
        with fsspec.open(self.url("f.gz"), "wt", compression="infer") as file:
            file.write("text" * 1000)
        self.assertLess(self.fs.size(self.path("f.gz")), 200)
        with fsspec.open(self.url("f.gz"), "rt", compression="infer") as file:
            self.assertEqual(file.read(), "text" * 1000)

    def test_a_transaction_publishes_all_of_its_files_or_none(self):
        with self.fs.transaction:
            for name in ("a", "b"):
                with self.fs.open(self.path(name), "wb") as file:
                    file.write(b"1")
            self.assertFalse(self.fs.exists(self.path("a")))
        self.assertEqual(self.fs.cat([self.path("a"), self.path("b")]), {self.path("a"): b"1", self.path("b"): b"1"})
        with self.assertRaises(ZeroDivisionError), self.fs.transaction:
            with self.fs.open(self.path("c"), "w") as file:
                file.write("2")
            1 / 0
        self.assertEqual(self.fs.ls(self.directory, detail=False), [self.path("a"), self.path("b")])

    def test_a_long_listing_has_the_details_of_every_file(self):
        for number in range(40):
            self.fs.pipe(self.path(f"{number:02}"), b"x" * number)
        self.assertEqual([(info["name"], info["size"]) for info in self.fs.ls(self.directory)], [(self.path(f"{number:02}"), number) for number in range(40)])

    def test_mappings_and_local_caches_of_fsspec_work_on_it(self):
        mapping = self.fs.get_mapper(self.path("map"), create=True)
        mapping["group/0.0"] = b"chunk"
        self.assertEqual((list(mapping), mapping["group/0.0"]), (["group/0.0"], b"chunk"))
        with fsspec.open(f"simplecache::{self.url('map/group/0.0')}", simplecache={"cache_storage": str(live.directory / "cache")}) as file:
            self.assertEqual(file.read(), b"chunk")
        with fsspec.open_files(self.url("map/**/0.*"))[0] as file:
            self.assertEqual(file.read(), b"chunk")

    def test_modified_is_a_time_with_a_zone(self):
        path = self.write("f", b"")
        self.cluster.utime(path, ns=(0, 10**9))
        self.assertEqual(self.fs.modified(path).isoformat(), "1970-01-01T00:00:01+00:00")


class Failures(FileSystemTest):
    def test_a_cluster_that_does_not_answer_is_an_error_and_nothing_is_said_to_be_missing(self):
        away = fsspec.filesystem("kintsugi", address="127.0.0.1:1", connect_timeout=0.3)
        for call in (away.exists, away.isfile, away.isdir, away.ls, away.info, away.cat):
            with self.assertRaises(OSError) as raised:
                call("/f")
            self.assertNotIsInstance(raised.exception, FileNotFoundError)

    def test_a_connection_that_was_closed_is_made_again(self):
        path = self.write("f", b"1")
        self.fs.cluster.close()
        self.assertEqual(self.fs.cat(path), b"1")


if __name__ == "__main__":
    unittest.main()
