// Everything that is done with an open file.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

enum { kSize = 3 << 20, kHole = 1 << 20 };

static char written[kSize], got[kSize + 1];

static void read_and_write(kintsugi_t *connection) {
  kintsugi_t *other = connected(NULL);
  kintsugi_file_t *file = NULL, *seen = NULL;
  struct kintsugi_stat about;
  fill(written, kSize, 1);
  EXPECT(kintsugi_open(connection, "/f", O_RDWR | O_CREAT | O_EXCL, 0600, &file), 0);
  EXPECT(kintsugi_pread(file, got, sizeof got, 0), 0);
  EXPECT(kintsugi_pwrite(file, written, kSize, 0), kSize);
  EXPECT(kintsugi_pread(file, got, sizeof got, 0), kSize);
  EXPECT(memcmp(got, written, kSize), 0);
  EXPECT(kintsugi_pwrite(file, "overwritten", 11, 777), 11);
  memcpy(written + 777, "overwritten", 11);
  EXPECT(kintsugi_stat(connection, "/f", &about), 0);
  EXPECT(about.size, kSize);
  EXPECT(kintsugi_fdatasync(file), 0);
  EXPECT(kintsugi_fsync(file), 0);
  EXPECT(kintsugi_open(other, "/f", O_RDONLY, 0, &seen), 0);
  EXPECT(kintsugi_pread(seen, got, sizeof got, 0), kSize);
  EXPECT(memcmp(got, written, kSize), 0);
  EXPECT(kintsugi_pread(seen, got, 100, kSize - 10), 10);
  EXPECT(kintsugi_pread(seen, got, 100, kSize), 0);
  EXPECT(kintsugi_fstat(seen, &about), 0);
  EXPECT(about.size, kSize);
  EXPECT(about.mode, S_IFREG | 0600);
  EXPECT(about.nlink, 1);
  EXPECT(about.blocks, kSize / 512);
  EXPECT(about.uid, geteuid());
  EXPECT_TRUE(about.mtime_ns > INT64_C(1700000000) * 1000000000);
  EXPECT(kintsugi_close(seen), 0);
  /* What close() has written out is seen by whoever opens the file then. */
  EXPECT(kintsugi_pwrite(file, "closed", 6, 0), 6);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_open(other, "/f", O_RDONLY, 0, &seen), 0);
  EXPECT(kintsugi_pread(seen, got, 6, 0), 6);
  EXPECT(memcmp(got, "closed", 6), 0);
  EXPECT(kintsugi_close(seen), 0);
  EXPECT(kintsugi_disconnect(other), 0);
}

static void flags(kintsugi_t *connection) {
  kintsugi_file_t *file = NULL;
  struct kintsugi_stat about;
  EXPECT(kintsugi_open(connection, "/none", O_RDONLY, 0, &file), -ENOENT);
  EXPECT_TRUE(file == NULL);
  EXPECT(kintsugi_open(connection, "/f", O_RDWR | O_CREAT | O_EXCL, 0600, &file), -EEXIST);
  EXPECT(kintsugi_open(connection, "/", O_RDONLY, 0, &file), -EISDIR);
  EXPECT(kintsugi_open(connection, "/f", O_RDONLY | O_DIRECTORY, 0, &file), -ENOTDIR);
  EXPECT(kintsugi_open(connection, "/f/", O_RDONLY, 0, &file), -ENOTDIR);
  EXPECT(kintsugi_open(connection, "/new/", O_RDWR | O_CREAT, 0644, &file), -EISDIR);
  EXPECT(kintsugi_open(connection, "/f", O_ACCMODE, 0, &file), -EINVAL);
  EXPECT(kintsugi_open(connection, "/f", O_RDONLY, 0, &file), 0);
  EXPECT(kintsugi_pwrite(file, "x", 1, 0), -EBADF);
  EXPECT(kintsugi_fallocate(file, 0, 0, 1), -EBADF);
  EXPECT(kintsugi_ftruncate(file, 0), -EINVAL);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_open(connection, "/f", O_WRONLY, 0, &file), 0);
  EXPECT(kintsugi_pread(file, got, 1, 0), -EBADF);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_open(connection, "/appended", O_RDWR | O_CREAT | O_APPEND, 0666, &file), 0);
  EXPECT(kintsugi_pwrite(file, "one", 3, 0), 3);
  EXPECT(kintsugi_pwrite(file, "two", 3, 0), 3);
  EXPECT(kintsugi_pread(file, got, 10, 0), 6);
  EXPECT(memcmp(got, "onetwo", 6), 0);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_open(connection, "/appended", O_RDWR | O_TRUNC | O_SYNC, 0, &file), 0);
  EXPECT(kintsugi_fstat(file, &about), 0);
  EXPECT(about.size, 0);
  EXPECT(about.mode, S_IFREG | 0644); /* less the mask */
  EXPECT(kintsugi_pwrite(file, "durable", 7, 0), 7);
  EXPECT(kintsugi_close(file), 0);
  /* Neither names nor their absence matter to what is open. */
  EXPECT(kintsugi_open(connection, "/", O_RDWR | O_TMPFILE, 0600, &file), 0);
  EXPECT(kintsugi_pwrite(file, "nameless", 8, 0), 8);
  EXPECT(kintsugi_fsync(file), 0);
  EXPECT(kintsugi_fstat(file, &about), 0);
  EXPECT(about.nlink, 0);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_open(connection, "/appended", O_RDWR, 0, &file), 0);
  EXPECT(kintsugi_unlink(connection, "/appended"), 0);
  EXPECT(kintsugi_pread(file, got, 10, 0), 7);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_stat(connection, "/appended", &about), -ENOENT);
}

static void holes(kintsugi_t *connection) {
  kintsugi_file_t *file = NULL;
  struct kintsugi_stat about;
  EXPECT(kintsugi_open(connection, "/holes", O_RDWR | O_CREAT, 0644, &file), 0);
  EXPECT(kintsugi_pwrite(file, "end", 3, kHole), 3);
  EXPECT(kintsugi_lseek(file, 0, SEEK_DATA), kHole);
  EXPECT(kintsugi_lseek(file, 0, SEEK_HOLE), 0);
  EXPECT(kintsugi_lseek(file, kHole, SEEK_HOLE), kHole + 3);
  EXPECT(kintsugi_lseek(file, kHole + 3, SEEK_DATA), -ENXIO);
  EXPECT(kintsugi_pread(file, got, 10, kHole - 5), 8);
  EXPECT(memcmp(got, "\0\0\0\0\0end", 8), 0);
  EXPECT(kintsugi_ftruncate(file, 2 * kHole), 0);
  EXPECT(kintsugi_fstat(file, &about), 0);
  EXPECT(about.size, 2 * kHole);
  EXPECT_TRUE(about.blocks < kHole / 512);
  fill(written, kHole, 2);
  EXPECT(kintsugi_pwrite(file, written, kHole, 0), kHole);
  EXPECT(kintsugi_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 65536, 65536), 0);
  EXPECT(kintsugi_fallocate(file, FALLOC_FL_ZERO_RANGE, 4 * kHole, 10), 0);
  EXPECT(kintsugi_fstat(file, &about), 0);
  EXPECT(about.size, 4 * kHole + 10);
  EXPECT(kintsugi_fallocate(file, FALLOC_FL_KEEP_SIZE, 8 * kHole, 10), 0);
  EXPECT(kintsugi_fstat(file, &about), 0);
  EXPECT(about.size, 4 * kHole + 10);
  EXPECT(kintsugi_fallocate(file, 0, 5 * kHole, 10), 0);
  EXPECT(kintsugi_fstat(file, &about), 0);
  EXPECT(about.size, 5 * kHole + 10);
  memset(written + 65536, 0, 65536);
  EXPECT(kintsugi_pread(file, got, kHole, 0), kHole);
  EXPECT(memcmp(got, written, kHole), 0);
  EXPECT(kintsugi_lseek(file, 0, SEEK_HOLE), 65536);
  EXPECT(kintsugi_lseek(file, 65536, SEEK_DATA), 131072);
  EXPECT(kintsugi_close(file), 0);
}

static void copies(kintsugi_t *connection) {
  kintsugi_file_t *from = NULL, *to = NULL;
  EXPECT(kintsugi_open(connection, "/holes", O_RDWR, 0, &from), 0);
  EXPECT(kintsugi_open(connection, "/copy", O_RDWR | O_CREAT, 0644, &to), 0);
  EXPECT(kintsugi_copy_file_range(from, 0, to, 4096, kHole), kHole);
  EXPECT(kintsugi_pread(to, got, kHole, 4096), kHole);
  EXPECT(memcmp(got, written, kHole), 0);
  EXPECT(kintsugi_copy_file_range(from, 5 * kHole, to, 0, 100), 10);
  EXPECT(kintsugi_copy_file_range(from, 6 * kHole, to, 0, 100), 0);
  EXPECT(kintsugi_copy_file_range(from, 0, from, 10, 100), -EINVAL);
  EXPECT(kintsugi_copy_file_range(from, 0, to, INT64_MAX - 5, 100), -EFBIG);
  EXPECT(kintsugi_copy_file_range(from, -1, to, 0, 100), -EINVAL);
  EXPECT(kintsugi_close(to), 0);
  EXPECT(kintsugi_open(connection, "/copy", O_RDONLY, 0, &to), 0);
  EXPECT(kintsugi_copy_file_range(from, 0, to, 0, 100), -EBADF);
  kintsugi_t *other = connected(NULL);
  kintsugi_file_t *far = NULL;
  EXPECT(kintsugi_open(other, "/copy", O_RDWR, 0, &far), 0);
  EXPECT(kintsugi_copy_file_range(from, 0, far, 0, 100), -EXDEV);
  EXPECT(kintsugi_disconnect(other), 0);
  EXPECT(kintsugi_close(to), 0);
  EXPECT(kintsugi_close(from), 0);
}

void test_files(void) {
  kintsugi_t *connection = connected(NULL);
  read_and_write(connection);
  flags(connection);
  holes(connection);
  copies(connection);
  EXPECT(kintsugi_disconnect(connection), 0);
}

/* A file in a snapshot is read, and not opened for anything else, whoever asks. */
void test_snapshots(void) {
  kintsugi_t *connection = connected(NULL);
  const char *path = "/.snapshots/s/f";
  const int changing[] = {O_RDWR, O_WRONLY, O_RDONLY | O_TRUNC, O_RDWR | O_CREAT};
  kintsugi_file_t *file = NULL;
  EXPECT(kintsugi_open(connection, "/f", O_WRONLY | O_CREAT, 0666, &file), 0);
  EXPECT(kintsugi_pwrite(file, "before", 6, 0), 6);
  EXPECT(kintsugi_close(file), 0);
  run("MAKE_SNAPSHOT");
  for (size_t i = 0; i < sizeof changing / sizeof *changing; ++i) {
    EXPECT(kintsugi_open(connection, path, changing[i], 0666, &file), -EROFS);
    EXPECT_TRUE(file == NULL);
  }
  EXPECT(kintsugi_truncate(connection, path, 0), -EROFS);
  EXPECT(kintsugi_open(connection, path, O_RDONLY, 0, &file), 0);
  EXPECT(kintsugi_pread(file, got, kSize, 0), 6);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_disconnect(connection), 0);
}
