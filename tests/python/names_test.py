#!/usr/bin/python3
"""Names, directories and attributes of the Python package, and the errors that its users see."""

import errno
import os
import pathlib
import random
import shutil
import stat
import time
import unittest

from live import ClusterTest, kintsugi, live

setUpModule, tearDownModule = live.start, live.stop

# Names that begin each other, differ in case or in a byte, look like patterns or options, or are no UTF-8.
ODD_NAMES = ["a", "A", "aa", " ", "  leading and trailing  ", "new\nline", "tab\t", "-rf", "*", "[ab]?", "%20", "a:b", "~", "...", ".hidden", "ünïcödé", "日本語",
             "\N{PILE OF POO}", "quote\"'`$", "back\\slash", "x" * 255, os.fsdecode(b"not \xff\xfe utf-8"), "e\u0301", "é"]


class Directories(ClusterTest):
    def test_odd_names_are_kept_byte_by_byte(self):
        for name in ODD_NAMES:
            self.write(name, os.fsencode(name))
        self.assertEqual(self.cluster.listdir(self.directory), sorted(ODD_NAMES, key=os.fsencode))
        for name in ODD_NAMES:
            self.assertEqual(self.read(name), os.fsencode(name))
            self.assertTrue(self.cluster.isfile(os.fsencode(self.path(name))), name)
            self.cluster.rename(self.path(name), self.path("moved"))
            self.cluster.remove(pathlib.PurePosixPath(self.path("moved")))
        self.assertEqual(self.cluster.listdir(self.directory), [])

    def test_a_random_tree_is_listed_walked_and_removed_as_a_local_one(self):
        seed = random.randrange(1 << 32)
        draw, local = random.Random(seed), live.directory / "tree"
        directories = [""]
        for number in range(60):
            name = f"{draw.choice(directories)}/{draw.choice('abcAB')}{number}"
            if draw.random() < 0.4:
                self.cluster.makedirs(self.directory + name)
                os.makedirs(f"{local}{name}")
                directories.append(name)
            else:
                self.write(name[1:], name.encode())
                pathlib.Path(f"{local}{name}").parent.mkdir(parents=True, exist_ok=True)
                pathlib.Path(f"{local}{name}").write_text(name)

        def sorted_walk(found, top):
            return sorted((where[len(top):], sorted(below), sorted(files)) for where, below, files in found)

        self.assertEqual(sorted_walk(self.cluster.walk(self.directory), self.directory), sorted_walk(os.walk(local), str(local)), f"seed {seed}")
        self.cluster.rmtree(self.directory)
        shutil.rmtree(local)
        self.assertFalse(self.cluster.exists(self.directory))

    def test_scandir_tells_types_without_asking_and_attributes_when_asked(self):
        self.write("file", b"four")
        self.cluster.mkdir(self.path("directory"))
        self.cluster.symlink("directory", self.path("link"))
        self.cluster.symlink("nowhere", self.path("broken"))
        with self.cluster.scandir(self.directory) as entries:
            found = {entry.name: (entry.is_dir(), entry.is_file(), entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in entries}
        self.assertEqual(found, {"file": (False, True, False, False), "directory": (True, False, False, True), "link": (True, False, True, False),
                                 "broken": (False, False, True, False)})
        entry = next(entry for entry in self.cluster.scandir(self.directory) if entry.name == "file")
        self.assertEqual((entry.stat().st_size, entry.inode(), os.fspath(entry)), (4, self.cluster.stat(entry).st_ino, self.path("file")))

    def test_a_scan_that_is_left_or_closed_early_ends(self):
        for name in "abc":
            self.write(name, b"")
        scan = self.cluster.scandir(self.directory)
        self.assertEqual(next(scan).name, "a")
        scan.close()
        scan.close()
        self.assertEqual(list(scan), [])

    def test_makedirs_makes_what_is_missing_and_tells_what_is_there(self):
        self.cluster.makedirs(self.path("a/b/c/"))
        self.cluster.makedirs(self.path("a/b/c"), exist_ok=True)
        with self.assertRaises(FileExistsError):
            self.cluster.makedirs(self.path("a/b/c"))
        self.write("file", b"")
        with self.assertRaises(FileExistsError):
            self.cluster.makedirs(self.path("file"), exist_ok=True)
        with self.assertRaises(NotADirectoryError):
            self.cluster.makedirs(self.path("file/below"))

    def test_rename_replaces_or_refuses_to(self):
        self.write("a", b"a")
        self.write("b", b"b")
        with self.assertRaises(FileExistsError) as raised:
            self.cluster.rename(self.path("a"), self.path("b"), replace=False)
        self.assertEqual((raised.exception.filename, raised.exception.filename2), (self.path("a"), self.path("b")))
        self.cluster.rename(self.path("a"), self.path("b"))
        self.assertEqual(self.read("b"), b"a")
        self.assertEqual(self.cluster.listdir(self.directory), ["b"])

    def test_links_and_what_they_say(self):
        self.write("f", b"1")
        self.cluster.link(self.path("f"), self.path("g"))
        self.assertEqual(self.cluster.stat(self.path("f")).st_nlink, 2)
        self.cluster.symlink("ünï/../x" * 400, self.path("s"))
        self.assertEqual(self.cluster.readlink(self.path("s")), "ünï/../x" * 400)
        self.assertTrue(stat.S_ISLNK(self.cluster.lstat(self.path("s")).st_mode))


class Attributes(ClusterTest):
    def test_stat_says_what_os_stat_says(self):
        began = time.time() - 1
        path = self.write("f", b"x" * 1000)
        self.cluster.chmod(path, 0o604)
        self.cluster.utime(path, ns=(1_000_000_001, 2_000_000_003))
        about = self.cluster.stat(path)
        self.assertEqual((about.st_size, stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid), (1000, 0o604, os.geteuid(), os.getegid()))
        self.assertEqual((about.st_atime_ns, about.st_mtime_ns, about.st_mtime), (1_000_000_001, 2_000_000_003, 2.000000003))
        self.assertGreater(about.st_ctime, began)
        self.cluster.utime(path)
        self.assertGreater(self.cluster.stat(path).st_mtime, began)
        self.cluster.truncate(path, 10)
        self.assertEqual(self.cluster.stat(path).st_size, 10)

    def test_the_cluster_says_how_much_room_there_is(self):
        usage = self.cluster.usage()
        self.assertGreater(usage.total_bytes, usage.free_bytes)
        self.assertGreater(usage.free_bytes, 0)

    def test_extended_attributes_hold_any_bytes(self):
        path = self.write("f", b"")
        self.cluster.setxattr(path, "user.one", b"\0\xff" * 100)
        self.cluster.setxattr(path, "user.empty", b"")
        self.assertEqual(sorted(self.cluster.listxattr(path)), ["user.empty", "user.one"])
        self.assertEqual((self.cluster.getxattr(path, "user.one"), self.cluster.getxattr(path, "user.empty")), (b"\0\xff" * 100, b""))
        with self.assertRaises(FileExistsError):
            self.cluster.setxattr(path, "user.one", b"", os.XATTR_CREATE)
        self.cluster.removexattr(path, "user.one")
        with self.assertRaises(OSError) as raised:
            self.cluster.getxattr(path, "user.one")
        self.assertEqual(raised.exception.errno, errno.ENODATA)

    @unittest.skipIf(os.geteuid() != 0, "only root may connect as another")
    def test_another_user_may_do_what_the_modes_say(self):
        secret = self.write("secret", b"")
        self.cluster.chmod(secret, 0o600)
        with kintsugi.connect(uid=1234, gid=1234, groups=[]) as other:
            for call in (lambda: other.open(secret), lambda: other.remove(secret), lambda: other.chmod(secret, 0o666)):
                with self.assertRaises(PermissionError):
                    call()
            self.cluster.chown(secret, 1234, -1)
            other.open(secret).close()
        self.assertEqual((self.cluster.stat(secret).st_uid, self.cluster.stat(secret).st_gid), (1234, os.getegid()))

    def test_new_files_get_the_modes_that_umask_and_permissions_leave(self):
        with kintsugi.connect(umask=0o027) as other:
            other.open(self.path("f"), "w").close()
            other.open(self.path("g"), "w", permissions=0o606).close()
            other.mkdir(self.path("d"))
        modes = [stat.S_IMODE(self.cluster.stat(self.path(name)).st_mode) for name in "fgd"]
        self.assertEqual(modes, [0o640, 0o600, 0o750])


class Errors(ClusterTest):
    def test_each_errno_is_the_error_that_os_raises_for_it_with_the_path_in_one_line(self):
        self.write("f", b"")
        self.cluster.mkdir(self.path("full"))
        self.write("full/f", b"")
        cluster, path = self.cluster, self.path
        for call, error, named in ((lambda: cluster.open(path("no")), FileNotFoundError, path("no")),
                                   (lambda: cluster.listdir(path("no")), FileNotFoundError, path("no")),
                                   (lambda: cluster.listdir(path("f")), NotADirectoryError, path("f")),
                                   (lambda: cluster.open(path("f/g")), NotADirectoryError, path("f/g")),
                                   (lambda: cluster.open(path("full")), IsADirectoryError, path("full")),
                                   (lambda: cluster.remove(path("full")), IsADirectoryError, path("full")),
                                   (lambda: cluster.mkdir(path("full")), FileExistsError, path("full")),
                                   (lambda: cluster.rmdir(path("full")), OSError, path("full"))):
            with self.assertRaises(error) as raised:
                call()
            self.assertEqual(raised.exception.filename, named)
            self.assertRegex(str(raised.exception), r"^\[Errno \d+\] [^\n]+: '" + named + "'$")
        with self.assertRaises(OSError) as raised:
            cluster.mkdir(path("x" * 256))
        self.assertEqual(raised.exception.errno, errno.ENAMETOOLONG)

    def test_a_full_quota_is_told_when_what_was_written_is_stored_and_an_atomic_file_keeps_the_old_one(self):
        old = self.write("old", b"old")
        live.command("quota", "set", self.directory, "--bytes", "1MiB")
        with self.assertRaises(OSError) as raised, self.cluster.open(self.path("f"), "wb", buffering=0) as file:
            file.write(b"x" * (4 << 20))
            file.fsync()
        self.assertEqual((raised.exception.errno, raised.exception.filename), (errno.EDQUOT, self.path("f")))
        self.cluster.remove(self.path("f"))
        with self.assertRaises(OSError) as raised, self.cluster.open_atomic(old) as file:
            file.write(b"x" * (4 << 20))
        self.assertEqual((raised.exception.errno, raised.exception.filename), (errno.EDQUOT, old))
        self.assertEqual((self.cluster.listdir(self.directory), self.read("old")), (["old"], b"old"))

    def test_a_path_with_a_zero_byte_is_refused_and_not_cut(self):
        self.write("f", b"")
        for call in (self.cluster.remove, self.cluster.stat, self.cluster.open, self.cluster.listdir):
            with self.assertRaisesRegex(ValueError, "null byte"):
                call(self.path("f\0g"))
        self.assertTrue(self.cluster.exists(self.path("f")))

    def test_connecting_says_in_one_line_what_is_wrong(self):
        cases = (({"address": "nonsense"}, errno.EINVAL, "missing port"), ({"secret_file": "/nonsense"}, errno.ENOENT, "open secret file /nonsense"),
                 ({"address": "127.0.0.1:1", "connect_timeout": 0.5}, errno.EIO, "127.0.0.1:1"))
        for arguments, number, text in cases:
            with self.assertRaises(OSError) as raised:
                kintsugi.connect(**arguments)
            self.assertEqual(raised.exception.errno, number, raised.exception)
            self.assertIn(text, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaisesRegex(TypeError, "no option timeout; it has .*connect_timeout"):
            kintsugi.connect(timeout=1)

    def test_another_secret_than_that_of_the_cluster_is_refused(self):
        other = live.directory / "other secret"
        other.write_text("0" * 64 + "\n")
        other.chmod(0o600)
        with self.assertRaises(PermissionError):
            kintsugi.connect(secret_file=other)


if __name__ == "__main__":
    unittest.main()
