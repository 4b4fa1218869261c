// What others than root may do: by mode, by groups and by access lists.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"

static kintsugi_t *as_user(uint32_t uid, uint32_t gid, uint32_t group) {
  struct kintsugi_options options;
  EXPECT(kintsugi_options_init(&options, sizeof options), 0);
  options.uid = uid;
  options.gid = gid;
  options.groups = &group;
  options.group_count = 1;
  options.umask = 0;
  return connected(&options);
}

/* What opening for reading and for writing comes to. */
static void expect_access(kintsugi_t *user, const char *path, int read, int write) {
  kintsugi_file_t *file = NULL;
  EXPECT(kintsugi_open(user, path, O_RDONLY, 0, &file), read);
  if (read == 0) EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_open(user, path, O_WRONLY, 0, &file), write);
  if (write == 0) EXPECT(kintsugi_close(file), 0);
}

void test_users(void) {
  kintsugi_t *root = connected(NULL);
  kintsugi_t *anna = as_user(1000, 1000, 50), *ben = as_user(2000, 2000, 60);
  kintsugi_file_t *file = NULL;
  kintsugi_dir_t *directory = NULL;
  struct kintsugi_stat about;
  EXPECT(kintsugi_mkdir(root, "/users", 0755), 0);
  EXPECT(kintsugi_mkdir(anna, "/users/no", 0755), -EACCES);
  EXPECT(kintsugi_open(anna, "/users/no", O_RDWR | O_CREAT, 0644, &file), -EACCES);
  EXPECT(kintsugi_chmod(root, "/users", 0777), 0);
  EXPECT(kintsugi_open(anna, "/users/f", O_RDWR | O_CREAT, 0640, &file), 0);
  EXPECT(kintsugi_fstat(file, &about), 0);
  EXPECT(about.uid, 1000);
  EXPECT(about.gid, 1000);
  EXPECT(about.mode, S_IFREG | 0640);
  EXPECT(kintsugi_close(file), 0);
  expect_access(anna, "/users/f", 0, 0);
  expect_access(ben, "/users/f", -EACCES, -EACCES);
  EXPECT(kintsugi_open(ben, "/users/f", O_RDONLY | O_TRUNC, 0, &file), -EACCES);
  EXPECT(kintsugi_truncate(ben, "/users/f", 0), -EACCES);
  EXPECT(kintsugi_chmod(ben, "/users/f", 0777), -EPERM);
  EXPECT(kintsugi_chown(anna, "/users/f", 2000, KINTSUGI_OWN_ID), -EPERM);
  /* A supplementary group. */
  EXPECT(kintsugi_chown(root, "/users/f", KINTSUGI_OWN_ID, 60), 0);
  expect_access(ben, "/users/f", 0, -EACCES);
  /* An access list with an item for one user: version, then tag, permissions and id of each. */
  static const unsigned char list[] = {2, 0, 0, 0,                                                  /**/
                                       1, 0, 6, 0, 255, 255, 255, 255, 2,  0, 6, 0, 0xd0, 7, 0, 0, /* user 2000: rw */
                                       4, 0, 0, 0, 255, 255, 255, 255, 16, 0, 6, 0, 255, 255, 255, 255,
                                       32, 0, 0, 0, 255, 255, 255, 255};
  EXPECT(kintsugi_setxattr(anna, "/users/f", "system.posix_acl_access", list, sizeof list, 0), 0);
  expect_access(ben, "/users/f", 0, 0);
  kintsugi_t *carl = as_user(3000, 3000, 60);
  expect_access(carl, "/users/f", -EACCES, -EACCES);
  /* Directories: to search, and to list. */
  EXPECT(kintsugi_chmod(root, "/users", 0711), 0);
  EXPECT(kintsugi_stat(ben, "/users/f", &about), 0);
  EXPECT(kintsugi_opendir(ben, "/users", &directory), -EACCES);
  EXPECT(kintsugi_chmod(root, "/users", 0744), 0);
  EXPECT(kintsugi_opendir(ben, "/users", &directory), 0);
  EXPECT(kintsugi_stat(ben, "/users/f", &about), -EACCES);
  EXPECT(kintsugi_unlink(ben, "/users/f"), -EACCES);
  /* A write by one who is not root takes set-ID bits away. */
  EXPECT(kintsugi_chmod(root, "/users", 0755), 0);
  EXPECT(kintsugi_chmod(root, "/users/f", 04766), 0);
  EXPECT(kintsugi_open(ben, "/users/f", O_WRONLY, 0, &file), 0);
  EXPECT(kintsugi_pwrite(file, "x", 1, 0), 1);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_stat(root, "/users/f", &about), 0);
  EXPECT(about.mode, S_IFREG | 0766);
  EXPECT(kintsugi_disconnect(carl), 0);
  EXPECT(kintsugi_disconnect(ben), 0);
  EXPECT(kintsugi_disconnect(anna), 0);
  EXPECT(kintsugi_disconnect(root), 0);
}
