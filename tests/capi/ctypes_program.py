#!/usr/bin/env python3
"""Uses libkintsugi.so from Python, by ctypes alone: ctypes_program.py LIBRARY"""
import ctypes
import errno
import os
import stat
import sys
import threading

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class Stat(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("size", ctypes.c_uint64), ("blocks", ctypes.c_uint64),
                ("mode", ctypes.c_uint32), ("nlink", ctypes.c_uint32), ("uid", ctypes.c_uint32),
                ("gid", ctypes.c_uint32), ("rdev", ctypes.c_uint64), ("atime_ns", ctypes.c_int64),
                ("mtime_ns", ctypes.c_int64), ("ctime_ns", ctypes.c_int64), ("reserved", ctypes.c_uint64 * 4)]


class Dirent(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("type", ctypes.c_uint32), ("name", ctypes.c_char * 260)]


def load(path):
    library = ctypes.CDLL(path)
    handle, size, offset = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
    library.kintsugi_connect.argtypes = [ctypes.c_char_p, ctypes.c_char_p, handle, ctypes.POINTER(handle)]
    library.kintsugi_disconnect.argtypes = [handle]
    library.kintsugi_last_error.restype = ctypes.c_char_p
    library.kintsugi_open.argtypes = [handle, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(handle)]
    library.kintsugi_close.argtypes = [handle]
    library.kintsugi_fsync.argtypes = [handle]
    library.kintsugi_mkdir.argtypes = [handle, ctypes.c_char_p, ctypes.c_uint32]
    library.kintsugi_stat.argtypes = [handle, ctypes.c_char_p, ctypes.POINTER(Stat)]
    library.kintsugi_opendir.argtypes = [handle, ctypes.c_char_p, ctypes.POINTER(handle)]
    library.kintsugi_readdir.argtypes = [handle, ctypes.POINTER(Dirent)]
    library.kintsugi_closedir.argtypes = [handle]
    for name in ("pread", "pwrite"):
        function = getattr(library, "kintsugi_" + name)
        function.argtypes = [handle, ctypes.c_char_p, size, offset]
        function.restype = ctypes.c_int64
        getattr(library, "kintsugi_aio_" + name).argtypes = function.argtypes + [CALLBACK, ctypes.c_void_p]
    return library


def main():
    k = load(sys.argv[1])

    def expect(got, expected):
        if got != expected:
            raise SystemExit(f"{got}, not {expected}: {k.kintsugi_last_error().decode()}")

    connection, file, directory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    expect(k.kintsugi_connect(None, None, None, ctypes.byref(connection)), 0)
    expect(k.kintsugi_mkdir(connection, b"/python", 0o755), 0)
    expect(k.kintsugi_mkdir(connection, b"/python", 0o755), -errno.EEXIST)
    expect(b"already exists" in k.kintsugi_last_error(), True)
    expect(k.kintsugi_open(connection, b"/python/f", os.O_RDWR | os.O_CREAT, 0o644, ctypes.byref(file)), 0)
    text = b"written by Python" * 1000
    expect(k.kintsugi_pwrite(file, text, len(text), 0), len(text))
    expect(k.kintsugi_fsync(file), 0)

    # Many reads under way at once, which end on a thread that Python did not start.
    pieces, results, all_ended = 100, [], threading.Semaphore(0)
    buffers = [ctypes.create_string_buffer(17) for _ in range(pieces)]

    @CALLBACK
    def ended(_, result):
        results.append(result)
        all_ended.release()

    for i, buffer in enumerate(buffers):
        expect(k.kintsugi_aio_pread(file, ctypes.cast(buffer, ctypes.c_char_p), 17, i * 17, ended, None), 0)
    for _ in buffers:
        all_ended.acquire()
    expect(results, [17] * pieces)
    expect({buffer.raw for buffer in buffers}, {b"written by Python"})

    about, entry = Stat(), Dirent()
    expect(k.kintsugi_stat(connection, b"/python/f", ctypes.byref(about)), 0)
    expect((about.size, about.mode), (len(text), stat.S_IFREG | 0o644))
    expect(k.kintsugi_opendir(connection, b"/python", ctypes.byref(directory)), 0)
    expect(k.kintsugi_readdir(directory, ctypes.byref(entry)), 1)
    expect((entry.name, entry.ino), (b"f", about.ino))
    expect(k.kintsugi_readdir(directory, ctypes.byref(entry)), 0)
    expect(k.kintsugi_closedir(directory), 0)
    expect(k.kintsugi_close(file), 0)
    expect(k.kintsugi_close(file), -errno.EBADF)
    expect(k.kintsugi_disconnect(connection), 0)
    print("ok")


if __name__ == "__main__":
    main()
