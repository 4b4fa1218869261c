// Bad arguments are errors: nothing that can be known to be wrong crashes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static void ignore(void *user, int64_t result) {
  (void)user;
  (void)result;
}

static void connections(void) {
  kintsugi_t *none = (kintsugi_t *)&ignore;
  struct kintsugi_options options;
  EXPECT(kintsugi_options_init(NULL, sizeof options), -EINVAL);
  EXPECT(kintsugi_options_init(&options, 1), -EINVAL);
  EXPECT(kintsugi_connect(NULL, NULL, NULL, NULL), -EINVAL);
  EXPECT(kintsugi_connect("no port", NULL, NULL, &none), -EINVAL);
  EXPECT_TRUE(none == NULL);
  EXPECT_TRUE(strlen(kintsugi_last_error()) > 0);
  EXPECT(kintsugi_connect(NULL, "/nowhere", NULL, &none), -ENOENT);
  EXPECT(kintsugi_connect(NULL, "/dev/null", NULL, &none), -EINVAL);
  memset(&options, 0, sizeof options);
  EXPECT(kintsugi_connect(NULL, NULL, &options, &none), -EINVAL);
  EXPECT(kintsugi_options_init(&options, sizeof options), 0);
  EXPECT(options.size, sizeof options);
  options.max_outstanding = 0;
  EXPECT(kintsugi_connect(NULL, NULL, &options, &none), -EINVAL);
  /* As a program that was built with a later version: what it has more is not known here, nor what lies behind it. */
  struct {
    struct kintsugi_options known;
    uint64_t later;
  } newer;
  EXPECT(kintsugi_options_init(&newer.known, sizeof newer.known), 0);
  newer.known.size = sizeof newer;
  newer.known.umask = 01000;
  EXPECT(kintsugi_connect(NULL, NULL, &newer.known, &none), -EINVAL);
  newer.known.umask = 022;
  newer.known.connect_timeout_ms = 300;
  EXPECT(kintsugi_connect("127.0.0.1:1", NULL, &newer.known, &none), -EIO);
  /* Nobody listens there. */
  EXPECT(kintsugi_options_init(&options, sizeof options), 0);
  options.connect_timeout_ms = 300;
  EXPECT(kintsugi_connect("127.0.0.1:1", NULL, &options, &none), -EIO);
  EXPECT_TRUE(none == NULL);
  EXPECT(kintsugi_disconnect(NULL), -EBADF);
}

static void null_handles(void) {
  struct kintsugi_stat about;
  struct kintsugi_statfs space;
  struct kintsugi_dirent entry;
  kintsugi_file_t *file;
  kintsugi_dir_t *directory;
  char bytes[8];
  EXPECT(kintsugi_open(NULL, "/a", O_RDONLY, 0, &file), -EBADF);
  EXPECT(kintsugi_opendir(NULL, "/", &directory), -EBADF);
  EXPECT(kintsugi_close(NULL), -EBADF);
  EXPECT(kintsugi_closedir(NULL), -EBADF);
  EXPECT(kintsugi_readdir(NULL, &entry), -EBADF);
  EXPECT(kintsugi_pread(NULL, bytes, sizeof bytes, 0), -EBADF);
  EXPECT(kintsugi_pwrite(NULL, bytes, sizeof bytes, 0), -EBADF);
  EXPECT(kintsugi_fsync(NULL), -EBADF);
  EXPECT(kintsugi_fdatasync(NULL), -EBADF);
  EXPECT(kintsugi_ftruncate(NULL, 0), -EBADF);
  EXPECT(kintsugi_fallocate(NULL, 0, 0, 1), -EBADF);
  EXPECT(kintsugi_lseek(NULL, 0, SEEK_DATA), -EBADF);
  EXPECT(kintsugi_fstat(NULL, &about), -EBADF);
  EXPECT(kintsugi_copy_file_range(NULL, 0, NULL, 0, 1), -EBADF);
  EXPECT(kintsugi_stat(NULL, "/", &about), -EBADF);
  EXPECT(kintsugi_lstat(NULL, "/", &about), -EBADF);
  EXPECT(kintsugi_statfs(NULL, &space), -EBADF);
  EXPECT(kintsugi_mkdir(NULL, "/a", 0755), -EBADF);
  EXPECT(kintsugi_rename(NULL, "/a", "/b", 0), -EBADF);
  EXPECT(kintsugi_getxattr(NULL, "/", "user.a", bytes, sizeof bytes), -EBADF);
  EXPECT(kintsugi_aio_pread(NULL, bytes, 1, 0, ignore, NULL), -EBADF);
  EXPECT(kintsugi_aio_close(NULL, ignore, NULL), -EBADF);
  EXPECT(kintsugi_aio_open(NULL, "/a", O_RDONLY, 0, &file, ignore, NULL), -EBADF);
}

static void null_pointers(kintsugi_t *connection, kintsugi_file_t *file) {
  struct kintsugi_stat about;
  char bytes[8];
  EXPECT(kintsugi_open(connection, NULL, O_RDONLY, 0, &file), -EINVAL);
  EXPECT(kintsugi_open(connection, "/a", O_RDONLY, 0, NULL), -EINVAL);
  EXPECT(kintsugi_stat(connection, NULL, &about), -EINVAL);
  EXPECT(kintsugi_stat(connection, "/", NULL), -EINVAL);
  EXPECT(kintsugi_mkdir(connection, NULL, 0), -EINVAL);
  EXPECT(kintsugi_rename(connection, "/a", NULL, 0), -EINVAL);
  EXPECT(kintsugi_symlink(connection, NULL, "/a"), -EINVAL);
  EXPECT(kintsugi_readlink(connection, "/a", NULL, 1), -EINVAL);
  EXPECT(kintsugi_setxattr(connection, "/", NULL, "", 0, 0), -EINVAL);
  EXPECT(kintsugi_setxattr(connection, "/", "user.a", NULL, 1, 0), -EINVAL);
  EXPECT(kintsugi_setxattr(connection, "/", "user.a", bytes, 1, 77), -EINVAL);
  EXPECT(kintsugi_removexattr(connection, "/", NULL), -EINVAL);
  EXPECT(kintsugi_opendir(connection, "/", NULL), -EINVAL);
  EXPECT(kintsugi_statfs(connection, NULL), -EINVAL);
}

static void ranges(kintsugi_file_t *file) {
  char bytes[8] = {0};
  EXPECT(kintsugi_pread(file, NULL, 1, 0), -EINVAL);
  EXPECT(kintsugi_pread(file, bytes, 1, -1), -EINVAL);
  EXPECT(kintsugi_pread(file, bytes, SIZE_MAX, 0), -EINVAL);
  EXPECT(kintsugi_pread(file, NULL, 0, 0), 0);
  EXPECT(kintsugi_pwrite(file, bytes, 1, -1), -EINVAL);
  EXPECT(kintsugi_pwrite(file, NULL, 1, 0), -EINVAL);
  EXPECT(kintsugi_pwrite(file, bytes, 8, INT64_MAX - 7), -EFBIG);
  EXPECT(kintsugi_ftruncate(file, -1), -EINVAL);
  EXPECT(kintsugi_fallocate(file, 0, 0, 0), -EINVAL);
  EXPECT(kintsugi_fallocate(file, 0, INT64_MAX, 2), -EFBIG);
  EXPECT(kintsugi_fallocate(file, FALLOC_FL_PUNCH_HOLE, 0, 1), -EOPNOTSUPP);
  EXPECT(kintsugi_fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 1), -EOPNOTSUPP);
  EXPECT(kintsugi_lseek(file, 0, SEEK_SET), -EINVAL);
  EXPECT(kintsugi_aio_pread(file, bytes, 1, 0, NULL, NULL), -EINVAL);
  EXPECT(kintsugi_aio_pwrite(file, bytes, 1, -1, ignore, NULL), -EINVAL);
}

void test_arguments(void) {
  connections();
  null_handles();
  kintsugi_t *connection = connected(NULL);
  kintsugi_file_t *file = NULL, *other = NULL;
  kintsugi_dir_t *directory = NULL;
  struct kintsugi_dirent entry;
  struct kintsugi_stat about;
  char bytes[8] = {0};
  EXPECT(kintsugi_open(connection, "/arguments", O_RDWR | O_CREAT, 0644, &file), 0);
  null_pointers(connection, file);
  ranges(file);
  /* Handles of another kind, and no handles at all. */
  EXPECT(kintsugi_fsync((kintsugi_file_t *)connection), -EBADF);
  EXPECT(kintsugi_stat((kintsugi_t *)file, "/", &about), -EBADF);
  EXPECT(kintsugi_fsync((kintsugi_file_t *)bytes), -EBADF);
  /* Handles that were ended stay ended, however many are made after them. */
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_close(file), -EBADF);
  for (int i = 0; i < 100; ++i) {
    EXPECT(kintsugi_open(connection, "/arguments", O_RDONLY, 0, &other), 0);
    EXPECT_TRUE(other != file);
    EXPECT(kintsugi_pread(file, bytes, 1, 0), -EBADF);
    EXPECT(kintsugi_close(other), 0);
  }
  EXPECT(kintsugi_opendir(connection, "/", &directory), 0);
  EXPECT(kintsugi_closedir(directory), 0);
  EXPECT(kintsugi_readdir(directory, &entry), -EBADF);
  EXPECT(kintsugi_closedir(directory), -EBADF);
  /* What is open ends with its connection. */
  EXPECT(kintsugi_open(connection, "/arguments", O_RDWR, 0, &file), 0);
  EXPECT(kintsugi_opendir(connection, "/", &directory), 0);
  EXPECT(kintsugi_pwrite(file, "written", 7, 0), 7);
  EXPECT(kintsugi_disconnect(connection), 0);
  EXPECT(kintsugi_disconnect(connection), -EBADF);
  EXPECT(kintsugi_stat(connection, "/", &about), -EBADF);
  EXPECT(kintsugi_pread(file, bytes, 1, 0), -EBADF);
  EXPECT(kintsugi_close(file), -EBADF);
  EXPECT(kintsugi_readdir(directory, &entry), -EBADF);
  /* And is written out by that. */
  connection = connected(NULL);
  EXPECT(kintsugi_open(connection, "/arguments", O_RDONLY, 0, &file), 0);
  EXPECT(kintsugi_pread(file, bytes, sizeof bytes, 0), 7);
  EXPECT(memcmp(bytes, "written", 7), 0);
  EXPECT(kintsugi_disconnect(connection), 0);
}
