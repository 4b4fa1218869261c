// Everything that is done with paths.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "check.h"

static void make(kintsugi_t *connection, const char *path) {
  kintsugi_file_t *file = NULL;
  EXPECT(kintsugi_open(connection, path, O_WRONLY | O_CREAT, 0644, &file), 0);
  EXPECT(kintsugi_close(file), 0);
}

static uint64_t inode(kintsugi_t *connection, const char *path) {
  struct kintsugi_stat about;
  EXPECT(kintsugi_stat(connection, path, &about), 0);
  return about.ino;
}

static void directories(kintsugi_t *connection) {
  struct kintsugi_stat about;
  EXPECT(kintsugi_mkdir(connection, "/d", 0777), 0);
  EXPECT(kintsugi_mkdir(connection, "/d/", 0777), -EEXIST);
  EXPECT(kintsugi_mkdir(connection, "/", 0777), -EEXIST);
  EXPECT(kintsugi_mkdir(connection, "/none/e", 0777), -ENOENT);
  EXPECT(kintsugi_mkdir(connection, "d/e/", 0700), 0);
  EXPECT(kintsugi_stat(connection, "d/./e/../", &about), 0);
  EXPECT(about.mode, S_IFDIR | 0755);
  EXPECT(kintsugi_stat(connection, "/../..", &about), 0);
  EXPECT(about.ino, inode(connection, "/"));
  EXPECT(kintsugi_rmdir(connection, "/d"), -ENOTEMPTY);
  EXPECT(kintsugi_rmdir(connection, "/d/e/."), -EINVAL);
  EXPECT(kintsugi_rmdir(connection, "/d/e/.."), -ENOTEMPTY);
  make(connection, "/d/f");
  EXPECT(kintsugi_rmdir(connection, "/d/f"), -ENOTDIR);
  EXPECT(kintsugi_mkdir(connection, "/d/f/g", 0777), -ENOTDIR);
  EXPECT(kintsugi_unlink(connection, "/d/f/"), -ENOTDIR);
  EXPECT(kintsugi_unlink(connection, "/d/e"), -EISDIR);
  EXPECT(kintsugi_unlink(connection, "/d/e/"), -EISDIR);
  EXPECT(kintsugi_unlink(connection, "/"), -EISDIR);
  EXPECT(kintsugi_unlink(connection, "/d/none"), -ENOENT);
  EXPECT(kintsugi_unlink(connection, "/d/f"), 0);
  EXPECT(kintsugi_rmdir(connection, "/d/e/"), 0);
  EXPECT(kintsugi_stat(connection, "", &about), -ENOENT);
}

static void long_names(kintsugi_t *connection) {
  struct kintsugi_stat about;
  char path[5000], name[260];
  memset(name, 'n', sizeof name);
  name[0] = '/';
  name[256] = '\0';
  make(connection, name);
  EXPECT(kintsugi_stat(connection, name, &about), 0);
  EXPECT(kintsugi_unlink(connection, name), 0);
  name[256] = 'n';
  name[257] = '\0';
  EXPECT(kintsugi_mkdir(connection, name, 0755), -ENAMETOOLONG);
  memset(path, '/', sizeof path);
  path[4095] = '\0';
  EXPECT(kintsugi_stat(connection, path, &about), 0);
  path[4095] = '/';
  path[4096] = '\0';
  EXPECT(kintsugi_stat(connection, path, &about), -ENAMETOOLONG);
  make(connection, "/d/\xff\xfe not text");
  EXPECT(kintsugi_unlink(connection, "/d/\xff\xfe not text"), 0);
}

static void listing(kintsugi_t *connection) {
  enum { kFiles = 1100 }; /* more than are fetched at once */
  kintsugi_dir_t *directory = NULL;
  struct kintsugi_dirent entry;
  char path[64];
  EXPECT(kintsugi_mkdir(connection, "/many", 0755), 0);
  EXPECT(kintsugi_opendir(connection, "/many", &directory), 0);
  EXPECT(kintsugi_readdir(directory, &entry), 0);
  EXPECT(kintsugi_closedir(directory), 0);
  for (int i = 0; i < kFiles; ++i) {
    snprintf(path, sizeof path, "/many/%04d", i);
    EXPECT(kintsugi_symlink(connection, "nowhere", path), 0);
  }
  EXPECT(kintsugi_opendir(connection, "/many/", &directory), 0);
  for (int i = 0; i < kFiles; ++i) {
    EXPECT(kintsugi_readdir(directory, &entry), 1);
    snprintf(path, sizeof path, "%04d", i);
    EXPECT(strcmp(entry.name, path), 0);
    EXPECT(entry.type, S_IFLNK);
    EXPECT_TRUE(entry.ino != 0);
  }
  EXPECT(kintsugi_readdir(directory, &entry), 0);
  EXPECT(kintsugi_readdir(directory, &entry), 0);
  EXPECT(kintsugi_closedir(directory), 0);
  EXPECT(kintsugi_opendir(connection, "/many/0001", &directory), -ENOENT);
  EXPECT(kintsugi_opendir(connection, "/none", &directory), -ENOENT);
  make(connection, "/file");
  EXPECT(kintsugi_opendir(connection, "/file", &directory), -ENOTDIR);
  EXPECT_TRUE(directory == NULL);
}

static void renames(kintsugi_t *connection) {
  struct kintsugi_stat about;
  make(connection, "/d/a");
  make(connection, "/d/b");
  const uint64_t a = inode(connection, "/d/a"), b = inode(connection, "/d/b");
  EXPECT(kintsugi_rename(connection, "/d/a", "/d/b", RENAME_NOREPLACE), -EEXIST);
  EXPECT(kintsugi_rename(connection, "/d/a", "/d/b", RENAME_EXCHANGE), 0);
  EXPECT(inode(connection, "/d/a"), b);
  EXPECT(inode(connection, "/d/b"), a);
  EXPECT(kintsugi_rename(connection, "/d/a", "/d/b", 0), 0);
  EXPECT(inode(connection, "/d/b"), b);
  EXPECT(kintsugi_stat(connection, "/d/a", &about), -ENOENT);
  EXPECT(kintsugi_rename(connection, "/d/a", "/d/b", 0), -ENOENT);
  EXPECT(kintsugi_rename(connection, "/d/b", "/d/c/", 0), -ENOTDIR);
  EXPECT(kintsugi_rename(connection, "/d/b", "/d/c", 64), -EINVAL);
  EXPECT(kintsugi_rename(connection, "/d", "/d/inside", 0), -EINVAL);
  EXPECT(kintsugi_rename(connection, "/d/b", "/e", RENAME_NOREPLACE), 0);
}

static void links(kintsugi_t *connection) {
  struct kintsugi_stat about;
  kintsugi_file_t *file = NULL;
  char target[16], path[64], other[64];
  EXPECT(kintsugi_link(connection, "/e", "/d/e2"), 0);
  EXPECT(kintsugi_link(connection, "/e", "/d/e2"), -EEXIST);
  EXPECT(kintsugi_link(connection, "/d", "/d2"), -EPERM);
  EXPECT(kintsugi_stat(connection, "/e", &about), 0);
  EXPECT(about.nlink, 2);
  EXPECT(kintsugi_symlink(connection, "../e", "/d/s"), 0);
  EXPECT(kintsugi_symlink(connection, "../e", "/d/s"), -EEXIST);
  EXPECT(kintsugi_symlink(connection, "", "/d/t"), -ENOENT);
  EXPECT(kintsugi_readlink(connection, "/d/s", target, sizeof target), 4);
  EXPECT(memcmp(target, "../e", 4), 0);
  EXPECT(kintsugi_readlink(connection, "/d/s", target, 2), 4);
  EXPECT(kintsugi_readlink(connection, "/e", target, 2), -EINVAL);
  EXPECT(kintsugi_stat(connection, "/d/s", &about), 0);
  EXPECT(about.ino, inode(connection, "/e"));
  EXPECT(kintsugi_lstat(connection, "/d/s", &about), 0);
  EXPECT(about.mode & S_IFMT, S_IFLNK);
  EXPECT(about.size, 4);
  EXPECT(kintsugi_stat(connection, "/d/s/", &about), -ENOTDIR);
  EXPECT(kintsugi_open(connection, "/d/s", O_RDONLY | O_NOFOLLOW, 0, &file), -ELOOP);
  EXPECT(kintsugi_open(connection, "/d/s", O_RDWR | O_CREAT | O_EXCL, 0600, &file), -EEXIST);
  /* A file is made where a link points that points nowhere. */
  EXPECT(kintsugi_symlink(connection, "/d/made", "/points"), 0);
  EXPECT(kintsugi_open(connection, "/points", O_RDWR, 0600, &file), -ENOENT);
  EXPECT(kintsugi_open(connection, "/points", O_RDWR | O_CREAT, 0600, &file), 0);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(inode(connection, "/points"), inode(connection, "/d/made"));
  /* Through a link to a directory, and through chains of links: 40 are followed, 41 are not. */
  EXPECT(kintsugi_symlink(connection, "d/../d/", "/to_d"), 0);
  EXPECT(inode(connection, "/to_d/made"), inode(connection, "/d/made"));
  EXPECT(kintsugi_symlink(connection, "e", "/chain1"), 0);
  for (int i = 2; i <= 41; ++i) {
    snprintf(path, sizeof path, "/chain%d", i);
    snprintf(other, sizeof other, "chain%d", i - 1);
    EXPECT(kintsugi_symlink(connection, other, path), 0);
  }
  EXPECT(inode(connection, "/chain40"), inode(connection, "/e"));
  EXPECT(kintsugi_stat(connection, "/chain41", &about), -ELOOP);
  EXPECT(kintsugi_symlink(connection, "circle", "/circle"), 0);
  EXPECT(kintsugi_open(connection, "/circle", O_RDWR | O_CREAT, 0600, &file), -ELOOP);
}

static void attributes(kintsugi_t *connection) {
  struct kintsugi_stat about, before;
  struct kintsugi_statfs space;
  kintsugi_file_t *file = NULL;
  EXPECT(kintsugi_chmod(connection, "/d/s", 0640), 0);
  EXPECT(kintsugi_stat(connection, "/e", &about), 0);
  EXPECT(about.mode, S_IFREG | 0640);
  EXPECT(kintsugi_chown(connection, "/e", 1001, KINTSUGI_OWN_ID), 0);
  EXPECT(kintsugi_chown(connection, "/e", KINTSUGI_OWN_ID, 1002), 0);
  EXPECT(kintsugi_stat(connection, "/e", &about), 0);
  EXPECT(about.uid, 1001);
  EXPECT(about.gid, 1002);
  EXPECT(kintsugi_lchown(connection, "/d/s", 7, 8), 0);
  EXPECT(kintsugi_lstat(connection, "/d/s", &about), 0);
  EXPECT(about.uid, 7);
  EXPECT(kintsugi_utimens(connection, "/e", 123456789, -1), 0);
  EXPECT(kintsugi_stat(connection, "/e", &before), 0);
  EXPECT(before.atime_ns, 123456789);
  EXPECT(before.mtime_ns, -1);
  EXPECT(kintsugi_utimens(connection, "/e", KINTSUGI_TIME_OMIT, KINTSUGI_TIME_NOW), 0);
  EXPECT(kintsugi_stat(connection, "/e", &about), 0);
  EXPECT(about.atime_ns, 123456789);
  EXPECT_TRUE(about.mtime_ns > before.ctime_ns - INT64_C(60000000000));
  /* The size of what is open and not written out. */
  EXPECT(kintsugi_open(connection, "/e", O_RDWR, 0, &file), 0);
  EXPECT(kintsugi_pwrite(file, "0123456789", 10, 0), 10);
  EXPECT(kintsugi_truncate(connection, "/e", 4), 0);
  EXPECT(kintsugi_stat(connection, "/e", &about), 0);
  EXPECT(about.size, 4);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_truncate(connection, "/d", 4), -EISDIR);
  EXPECT(kintsugi_truncate(connection, "/e", -4), -EINVAL);
  EXPECT(kintsugi_truncate(connection, "/none", 4), -ENOENT);
  EXPECT(kintsugi_statfs(connection, &space), 0);
  EXPECT_TRUE(space.free_bytes > 0 && space.total_bytes >= space.free_bytes && space.files > 1000);
}

static void extended_attributes(kintsugi_t *connection) {
  char value[16], names[64];
  EXPECT(kintsugi_getxattr(connection, "/e", "user.one", value, sizeof value), -ENODATA);
  EXPECT(kintsugi_setxattr(connection, "/e", "user.one", "1\0 1", 4, XATTR_CREATE), 0);
  EXPECT(kintsugi_setxattr(connection, "/e", "user.one", "", 0, XATTR_CREATE), -EEXIST);
  EXPECT(kintsugi_setxattr(connection, "/e", "user.two", "", 0, XATTR_REPLACE), -ENODATA);
  EXPECT(kintsugi_setxattr(connection, "/e", "user.two", NULL, 0, 0), 0);
  EXPECT(kintsugi_getxattr(connection, "/e", "user.one", value, sizeof value), 4);
  EXPECT(memcmp(value, "1\0 1", 4), 0);
  EXPECT(kintsugi_getxattr(connection, "/e", "user.one", NULL, 0), 4);
  EXPECT(kintsugi_getxattr(connection, "/e", "user.one", value, 3), -ERANGE);
  EXPECT(kintsugi_getxattr(connection, "/e", "nonsense", value, 3), -EOPNOTSUPP);
  EXPECT(kintsugi_listxattr(connection, "/e", NULL, 0), 18);
  EXPECT(kintsugi_listxattr(connection, "/e", names, 5), -ERANGE);
  EXPECT(kintsugi_listxattr(connection, "/e", names, sizeof names), 18);
  EXPECT(memcmp(names, "user.one\0user.two", 18), 0);
  EXPECT(kintsugi_removexattr(connection, "/e", "user.one"), 0);
  EXPECT(kintsugi_removexattr(connection, "/e", "user.one"), -ENODATA);
}

void test_names(void) {
  kintsugi_t *connection = connected(NULL);
  directories(connection);
  long_names(connection);
  listing(connection);
  renames(connection);
  links(connection);
  attributes(connection);
  extended_attributes(connection);
  EXPECT(kintsugi_disconnect(connection), 0);
}
