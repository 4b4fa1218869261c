/*
 * The C interface of Kintsugi: files of a cluster, without a mount.
 *
 * Results. Every function that can fail returns a number: 0 or more is its result, less than 0 is an errno with its
 * sign turned (-ENOENT, -EIO...). One convention for blocking and for asynchronous calls, which have no errno of their
 * own to set; errno itself is left alone. kintsugi_last_error() has a sentence for a person.
 *
 * Handles. A kintsugi_t (a connection), a kintsugi_file_t and a kintsugi_dir_t are made by this library and ended by
 * kintsugi_disconnect, kintsugi_close and kintsugi_closedir. They point to nothing: never follow them. NULL, and a
 * handle that was ended, are answered with -EBADF, for no handle is ever given out twice. kintsugi_disconnect ends the
 * files and directories of its connection too.
 *
 * Memory. What the caller passes stays the caller's. Strings and structures are read before a call returns,
 * asynchronous calls too; buffers of asynchronous calls are used until the callback is called. No function returns
 * memory to be freed.
 *
 * Threads. Any thread may call anything at any time. Each connection has one thread of its own, which does the work
 * and which calls the callbacks; it has all signals blocked. Calls that begin after another one has returned see what
 * that one did. A connection does not survive fork(): the child must not use it, nor end it; it may exec or make one
 * of its own.
 *
 * Paths. From the cluster's root on, with or without a leading "/", at most 4,095 bytes in names of at most 255. "."
 * and ".." mean what they mean everywhere; symbolic links are followed, at most 40 of them (-ELOOP).
 *
 * Permissions are those of the user and the groups that the options name; the process's own unless they say otherwise.
 *
 * What was written is durable after kintsugi_fsync, and after kintsugi_close, which writes out. Until then it may be
 * lost with the process. While servers do not answer calls wait, up to io_timeout_ms, and then fail with -EIO; so a
 * metaserver may be restarted below an application that has files open.
 *
 * Constants are those of Linux: O_* and FALLOC_FL_* of <fcntl.h>, SEEK_DATA and SEEK_HOLE of <unistd.h>, RENAME_* of
 * <stdio.h>, XATTR_* of <sys/xattr.h>, S_IF* of <sys/stat.h>; most want _GNU_SOURCE.
 */
#ifndef KINTSUGI_KINTSUGI_H
#define KINTSUGI_KINTSUGI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KINTSUGI_API __attribute__((visibility("default")))

typedef struct kintsugi_connection kintsugi_t; /* a connection to a cluster */
typedef struct kintsugi_file kintsugi_file_t;  /* an open file */
typedef struct kintsugi_dir kintsugi_dir_t;    /* a directory that is being read */

/* ---- connections ------------------------------------------------------------------------------------------------- */

#define KINTSUGI_OWN_ID UINT32_MAX

/* Settings. Always filled by kintsugi_options_init first; later versions add fields at the end. */
struct kintsugi_options {
  size_t size;            /* sizeof this structure, as the caller knows it */
  uint32_t uid, gid;      /* user and group; KINTSUGI_OWN_ID (default): effective ids of the process */
  const uint32_t* groups; /* supplementary; NULL (default): the process's own if uid is its own, else none */
  size_t group_count;     /* number of `groups`; at most 65,536 */
  uint32_t umask;         /* bits that new files and directories do not get; default 022 */
  uint32_t max_outstanding;    /* asynchronous calls that have not ended, 1 to 65,536; default 1,024 */
  uint64_t connect_timeout_ms; /* kintsugi_connect waits so long for the metaserver; default 30,000 */
  uint64_t io_timeout_ms;      /* calls wait so long for servers; 0: for ever; default 600,000 */
  uint64_t write_behind_ms;    /* what was written is written out at the latest after this; default 2,000 */
  uint64_t dirty_bytes;      /* bound on what is written and not durable, at least 16 MiB; default 128 MiB */
  uint64_t memory_bytes;     /* bound on file data in flight, at least 64 MiB; default 128 MiB */
  uint64_t read_ahead_bytes; /* bound on what is read ahead, of memory_bytes; 0: nothing is; default 64 MiB */
  const char* log_file;      /* where the library logs, for the whole process; NULL (default): nowhere */
  const char* token_file;    /* a token, in place of the secret; NULL (default): $KINTSUGI_TOKEN_FILE, unless
                              * `secret_file` is given */
};

/* Fills in the defaults. `size` is sizeof(struct kintsugi_options) of the caller. */
KINTSUGI_API int kintsugi_options_init(struct kintsugi_options* options, size_t size);

/* Connects, and waits until the metaserver answers. `address` is host:port (NULL: $KINTSUGI_META), `secret_file` the
 * file with the cluster's secret (NULL: $KINTSUGI_SECRET_FILE), `options` may be NULL. Other hosts are spoken to over
 * TLS with the files that $KINTSUGI_TLS_CERTIFICATE, $KINTSUGI_TLS_KEY and $KINTSUGI_TLS_AUTHORITY name. On 0
 * `*connection` is valid, else NULL. -EINVAL: a bad address, option, secret or certificate; -ENOENT, -EACCES: a file;
 * -EACCES: another secret than the cluster's, or a token or certificate that is refused; -EIO: no answer. */
KINTSUGI_API int kintsugi_connect(const char* address, const char* secret_file,
                                  const struct kintsugi_options* options, kintsugi_t** connection);

/* Waits for the calls that other threads have under way, closes all files, writes everything out, ends the thread. The
 * connection is gone whatever is returned: the first error of writing out, or 0. Not from a callback (-EDEADLK). */
KINTSUGI_API int kintsugi_disconnect(kintsugi_t* connection);

/* What the last call of this thread that failed had to say, or "". Valid until the thread's next call that fails.
 * In a callback: of the call that has ended. */
KINTSUGI_API const char* kintsugi_last_error(void);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Opens, and with O_CREAT makes, a regular file. Known flags: O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC,
 * O_APPEND (every write goes to the end), O_SYNC and O_DSYNC (every write is durable when it returns), O_NOFOLLOW,
 * O_DIRECTORY with O_TMPFILE; others change nothing. `mode` is that of a new file. On 0 `*file` is valid, else
 * NULL. -EISDIR: directories are opened by kintsugi_opendir; -ENXIO: a fifo, socket or device. */
KINTSUGI_API int kintsugi_open(kintsugi_t* connection, const char* path, int flags, uint32_t mode,
                               kintsugi_file_t** file);

/* Waits for calls that are under way on the file, writes it out, and ends the handle whatever is returned: 0, or
 * the first error of writing out that this handle was not told yet. */
KINTSUGI_API int kintsugi_close(kintsugi_file_t* file);

/* Reads up to `bytes` bytes; fewer only at the end of the file. Returns how many. */
KINTSUGI_API int64_t kintsugi_pread(kintsugi_file_t* file, void* into, size_t bytes, int64_t offset);
/* Writes all of it or fails. Returns `bytes`. With O_APPEND the offset is not looked at. */
KINTSUGI_API int64_t kintsugi_pwrite(kintsugi_file_t* file, const void* from, size_t bytes, int64_t offset);

/* Everything written to the file before, through any handle, is durable. */
KINTSUGI_API int kintsugi_fsync(kintsugi_file_t* file);
/* The same: metadata are durable anyway. */
KINTSUGI_API int kintsugi_fdatasync(kintsugi_file_t* file);

KINTSUGI_API int kintsugi_ftruncate(kintsugi_file_t* file, int64_t size);
/* `mode` as fallocate(2) has it: 0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE with FALLOC_FL_KEEP_SIZE,
 * FALLOC_FL_ZERO_RANGE with or without it; others are -EOPNOTSUPP. */
KINTSUGI_API int kintsugi_fallocate(kintsugi_file_t* file, int mode, int64_t offset, int64_t length);
/* `whence` SEEK_DATA or SEEK_HOLE: the next data or hole from `offset` on, the end of the file being a hole;
 * -ENXIO: none. Others are -EINVAL, for files have no position here. */
KINTSUGI_API int64_t kintsugi_lseek(kintsugi_file_t* file, int64_t offset, int whence);
/* Has `to` share bytes of `from`, on the server, without moving them. Returns how many, which may be fewer than
 * `length`: 0 at the end of `from`. Both of one connection (-EXDEV); the ranges of one file must not overlap
 * (-EINVAL). */
KINTSUGI_API int64_t kintsugi_copy_file_range(kintsugi_file_t* from, int64_t from_offset, kintsugi_file_t* to,
                                              int64_t to_offset, uint64_t length);

/* ---- attributes -------------------------------------------------------------------------------------------------- */

struct kintsugi_stat {
  uint64_t ino;
  uint64_t size;   /* bytes */
  uint64_t blocks; /* of 512 bytes; holes take none */
  uint32_t mode;   /* type and permissions */
  uint32_t nlink;
  uint32_t uid, gid;
  uint64_t rdev;                        /* of a device file */
  int64_t atime_ns, mtime_ns, ctime_ns; /* since 1970 */
  uint64_t reserved[4];                 /* 0 */
};

struct kintsugi_statfs {
  uint64_t total_bytes, free_bytes; /* of file data: what the code adds is taken off */
  uint64_t files;                   /* inodes that there are */
  uint64_t reserved[5];             /* 0 */
};

/* Times for kintsugi_utimens. */
#define KINTSUGI_TIME_NOW INT64_MAX
#define KINTSUGI_TIME_OMIT INT64_MIN

KINTSUGI_API int kintsugi_fstat(kintsugi_file_t* file, struct kintsugi_stat* into);
KINTSUGI_API int kintsugi_stat(kintsugi_t* connection, const char* path, struct kintsugi_stat* into);
/* Of a symbolic link itself. */
KINTSUGI_API int kintsugi_lstat(kintsugi_t* connection, const char* path, struct kintsugi_stat* into);
KINTSUGI_API int kintsugi_statfs(kintsugi_t* connection, struct kintsugi_statfs* into);
KINTSUGI_API int kintsugi_truncate(kintsugi_t* connection, const char* path, int64_t size);
KINTSUGI_API int kintsugi_chmod(kintsugi_t* connection, const char* path, uint32_t mode);
/* KINTSUGI_OWN_ID leaves one as it is, as (uid_t)-1 does. */
KINTSUGI_API int kintsugi_chown(kintsugi_t* connection, const char* path, uint32_t uid, uint32_t gid);
KINTSUGI_API int kintsugi_lchown(kintsugi_t* connection, const char* path, uint32_t uid, uint32_t gid);
/* Nanoseconds since 1970, KINTSUGI_TIME_NOW or KINTSUGI_TIME_OMIT. */
KINTSUGI_API int kintsugi_utimens(kintsugi_t* connection, const char* path, int64_t atime_ns,
                                  int64_t mtime_ns);

/* ---- names ------------------------------------------------------------------------------------------------------- */

KINTSUGI_API int kintsugi_mkdir(kintsugi_t* connection, const char* path, uint32_t mode);
KINTSUGI_API int kintsugi_rmdir(kintsugi_t* connection, const char* path);
/* A file that is open lives on until it is closed everywhere. */
KINTSUGI_API int kintsugi_unlink(kintsugi_t* connection, const char* path);
/* `flags`: 0, RENAME_NOREPLACE or RENAME_EXCHANGE; others are -EINVAL. */
KINTSUGI_API int kintsugi_rename(kintsugi_t* connection, const char* from, const char* to, unsigned flags);
/* A symbolic link at `from` is linked itself. */
KINTSUGI_API int kintsugi_link(kintsugi_t* connection, const char* from, const char* to);
KINTSUGI_API int kintsugi_symlink(kintsugi_t* connection, const char* target, const char* path);
/* Returns the target's length; copies at most `bytes` bytes of it, without a 0 at the end. */
KINTSUGI_API int64_t kintsugi_readlink(kintsugi_t* connection, const char* path, char* into, size_t bytes);

/* ---- directories ------------------------------------------------------------------------------------------------- */

struct kintsugi_dirent {
  uint64_t ino;
  uint32_t type;  /* S_IFREG, S_IFDIR... */
  char name[260]; /* ends with a 0; in the order of bytes; without "." and ".." */
};

KINTSUGI_API int kintsugi_opendir(kintsugi_t* connection, const char* path, kintsugi_dir_t** directory);
/* 1: `*entry` is the next one; 0: there are no more. What others make or remove meanwhile is seen or not; the rest
 * is seen once. */
KINTSUGI_API int kintsugi_readdir(kintsugi_dir_t* directory, struct kintsugi_dirent* entry);
KINTSUGI_API int kintsugi_closedir(kintsugi_dir_t* directory);

/* ---- extended attributes ----------------------------------------------------------------------------------------- */

/* Returns the value's length; with `bytes` 0 nothing is copied. -ERANGE: it is longer than `bytes`; -ENODATA: there
 * is none. */
KINTSUGI_API int64_t kintsugi_getxattr(kintsugi_t* connection, const char* path, const char* name, void* into,
                                       size_t bytes);
/* `flags`: 0, XATTR_CREATE (-EEXIST) or XATTR_REPLACE (-ENODATA). */
KINTSUGI_API int kintsugi_setxattr(kintsugi_t* connection, const char* path, const char* name,
                                   const void* value, size_t bytes, int flags);
/* The names, each with a 0 behind it. Returns their length; as kintsugi_getxattr. */
KINTSUGI_API int64_t kintsugi_listxattr(kintsugi_t* connection, const char* path, char* into, size_t bytes);
KINTSUGI_API int kintsugi_removexattr(kintsugi_t* connection, const char* path, const char* name);

/* ---- asynchronous calls ------------------------------------------------------------------------------------------ */

/* `result` is what the blocking function would have returned. Called exactly once for each call that returned 0,
 * and never for one that did not; by the connection's thread, perhaps before the call itself has returned. It must
 * be quick: nothing else happens on the connection meanwhile. It may begin asynchronous calls; blocking calls of
 * the same connection are answered with -EDEADLK. */
typedef void (*kintsugi_callback)(void* user, int64_t result);

/* Each begins the call and returns 0; or an error, and nothing happens. -EAGAIN: max_outstanding calls of this
 * connection have not ended; the caller begins it again once one has. Calls run at once and end in any order, but
 * those on a file see what calls that ended before they began have written. `into`, `from`, `file` of
 * kintsugi_aio_open and `stat` are used until the callback is called. */
KINTSUGI_API int kintsugi_aio_open(kintsugi_t* connection, const char* path, int flags, uint32_t mode,
                                   kintsugi_file_t** file, kintsugi_callback callback, void* user);
KINTSUGI_API int kintsugi_aio_close(kintsugi_file_t* file, kintsugi_callback callback, void* user);
KINTSUGI_API int kintsugi_aio_pread(kintsugi_file_t* file, void* into, size_t bytes, int64_t offset,
                                    kintsugi_callback callback, void* user);
KINTSUGI_API int kintsugi_aio_pwrite(kintsugi_file_t* file, const void* from, size_t bytes, int64_t offset,
                                     kintsugi_callback callback, void* user);
KINTSUGI_API int kintsugi_aio_fsync(kintsugi_file_t* file, kintsugi_callback callback, void* user);
KINTSUGI_API int kintsugi_aio_stat(kintsugi_t* connection, const char* path, struct kintsugi_stat* into,
                                   kintsugi_callback callback, void* user);

#ifdef __cplusplus
}
#endif

#endif
