// The functions of kintsugi.h: arguments are checked here, handles become objects, and the work is a task of the
// connection.
#include "client/capi/include/kintsugi/kintsugi.h"

#include <cstring>
#include <exception>
#include <new>

#include <sys/xattr.h>
#include <unistd.h>

#include "client/capi/directory.h"
#include "client/capi/file.h"
#include "client/capi/handle_table.h"
#include "client/capi/open_call.h"
#include "client/capi/path_operations.h"
#include "client/capi/settings.h"
#include "common/log/log.h"

namespace kintsugi::capi {
namespace {

/// Never destroyed: threads may call while the process exits.
struct Handles {
  HandleTable<kintsugi_t, Connection> connections;
  HandleTable<kintsugi_file_t, File> files;
  HandleTable<kintsugi_dir_t, Directory> directories;
};

Handles& handles() {
  static Handles& instance = *new Handles;
  return instance;
}

// ---- bad arguments

Status bad_argument(const char* why) {
  return {Code::kInvalidArgument, why};
}

Status bad_handle() {
  return {Code::kBadHandle, "no such handle, or not any more"};
}

Status null() {
  return bad_argument("a pointer is NULL");
}

template <class... Pointers>
bool any_null(Pointers... pointers) {
  return (... || (pointers == nullptr));
}

Status check_range(const void* memory, size_t bytes, int64_t offset) {
  if (memory == nullptr && bytes > 0) return null();
  if (offset < 0) return bad_argument("the offset is negative");
  if (bytes > size_t{INT64_MAX}) return bad_argument("too many bytes");
  return {};
}

// ---- from C to tasks and back

/// No exception leaves the library.
template <class Work>
int64_t guarded(Work work) noexcept {
  try {
    return to_result(work());
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::exception&) {
    return -EIO;
  }
}

/// `work` makes the task, given the object of the handle; its arguments were checked with `arguments`.
template <class Work>
int64_t with_connection(kintsugi_t* handle, const Status& arguments, Work work) noexcept {
  return guarded([&]() -> Outcome {
    const ConnectionPtr connection = handles().connections.find(handle);
    if (!connection) return bad_handle();
    if (!arguments.ok()) return arguments;
    return connection->call(work(connection));
  });
}

template <class Work>
int64_t with_file(kintsugi_file_t* handle, const Status& arguments, Work work) noexcept {
  return guarded([&]() -> Outcome {
    const FilePtr file = handles().files.find(handle);
    if (!file) return bad_handle();
    if (!arguments.ok()) return arguments;
    return file->connection()->call(work(file));
  });
}

template <class Work>
int64_t submit_with_connection(kintsugi_t* handle, const Status& arguments, kintsugi_callback callback,
                               void* user, Work work) noexcept {
  return guarded([&]() -> Outcome {
    const ConnectionPtr connection = handles().connections.find(handle);
    if (!connection) return bad_handle();
    if (!arguments.ok()) return arguments;
    if (callback == nullptr) return null();
    return outcome_of(Connection::submit(connection, work(connection), callback, user));
  });
}

template <class Work>
int64_t submit_with_file(kintsugi_file_t* handle, const Status& arguments, kintsugi_callback callback,
                         void* user, Work work) noexcept {
  return guarded([&]() -> Outcome {
    const FilePtr file = handles().files.find(handle);
    if (!file) return bad_handle();
    if (!arguments.ok()) return arguments;
    if (callback == nullptr) return null();
    return outcome_of(Connection::submit(file->connection(), work(file), callback, user));
  });
}

Status check_pointers(bool any_is_null) {
  return any_is_null ? null() : Status{};
}

/// Gives out the handle before anybody can hear of the end of the call, so that disconnect misses none.
asio::awaitable<Outcome> open_handle(ConnectionPtr connection, std::string path, int flags, uint32_t mode,
                                     kintsugi_file_t** into) {
  FilePtr file;
  *into = nullptr;
  KINTSUGI_CO_TRY(co_await open_file(connection, std::move(path), flags, mode, file));
  *into = handles().files.add(std::move(file));
  co_return int64_t{0};
}

asio::awaitable<Outcome> open_directory_handle(ConnectionPtr connection, std::string path,
                                               kintsugi_dir_t** into) {
  std::shared_ptr<Directory> directory;
  *into = nullptr;
  const Outcome opened = co_await Directory::open(connection, std::move(path), directory);
  if (opened) *into = handles().directories.add(std::move(directory));
  co_return opened;
}

std::span<std::byte> bytes_of(void* memory, size_t bytes) {
  return {static_cast<std::byte*>(memory), bytes};
}

std::span<const std::byte> bytes_of(const void* memory, size_t bytes) {
  return {static_cast<const std::byte*>(memory), bytes};
}

void log_to(const char* file) {
  if (file == nullptr) {
    log::set_sink([](log::Level, std::string_view) {});
  } else {
    log::set_file(file);
    log::set_sink({});
  }
}

int change_owner(kintsugi_t* connection, const char* path, LastName last_name, uint32_t uid, uint32_t gid) {
  return static_cast<int>(
      with_connection(connection, check_pointers(any_null(path)), [&](const ConnectionPtr& to) {
        proto::SetAttributesRequest request;
        if (uid != KINTSUGI_OWN_ID) request.set_uid(uid);
        if (gid != KINTSUGI_OWN_ID) request.set_gid(gid);
        return change_attributes(to, path, last_name, std::move(request));
      }));
}

int change_xattr(kintsugi_t* connection, const char* path, const Status& arguments,
                 proto::SetXattrRequest request) {
  return static_cast<int>(with_connection(connection, arguments, [&](const ConnectionPtr& to) {
    return set_xattr(to, path, std::move(request));
  }));
}

/// Runs a task whose result is 0 or an error.
template <class Work>
int on_path(kintsugi_t* connection, const char* path, Work work) {
  return static_cast<int>(with_connection(connection, check_pointers(any_null(path)), work));
}

}  // namespace
}  // namespace kintsugi::capi

using namespace kintsugi;
using namespace kintsugi::capi;

// ---- connections

int kintsugi_options_init(struct kintsugi_options* options, size_t size) {
  return static_cast<int>(guarded([&]() -> Outcome {
    if (options == nullptr) return null();
    if (size < sizeof *options) return bad_argument("the structure is shorter than that of any version");
    // Fields that this version does not know mean nothing to it.
    std::memset(options, 0, size);
    *options = default_options();
    options->size = size;
    return int64_t{0};
  }));
}

int kintsugi_connect(const char* address, const char* secret_file, const struct kintsugi_options* options,
                     kintsugi_t** connection) {
  return static_cast<int>(guarded([&]() -> Outcome {
    if (connection == nullptr) return null();
    *connection = nullptr;
    KINTSUGI_ASSIGN(ConnectionSettings settings, settings_of(address, secret_file, options));
    log_to(options == nullptr ? nullptr : options->log_file);
    KINTSUGI_ASSIGN(ConnectionPtr made, Connection::connect(std::move(settings)));
    *connection = handles().connections.add(std::move(made));
    return int64_t{0};
  }));
}

int kintsugi_disconnect(kintsugi_t* handle) {
  return static_cast<int>(guarded([&]() -> Outcome {
    const ConnectionPtr connection = handles().connections.find(handle);
    if (!connection) return bad_handle();
    const Status status = connection->disconnect();
    if (status.code() == Code::kDeadlock) return status;
    handles().connections.take(handle);
    const auto is_of_it = [&](const auto& object) { return object.connection() == connection; };
    handles().files.remove_if(is_of_it);
    handles().directories.remove_if(is_of_it);
    return outcome_of(status);
  }));
}

const char* kintsugi_last_error(void) {
  return last_error();
}

// ---- files

int kintsugi_open(kintsugi_t* connection, const char* path, int flags, uint32_t mode,
                  kintsugi_file_t** file) {
  if (file != nullptr) *file = nullptr;
  return static_cast<int>(
      with_connection(connection, check_pointers(any_null(path, file)),
                      [&](const ConnectionPtr& to) { return open_handle(to, path, flags, mode, file); }));
}

int kintsugi_close(kintsugi_file_t* handle) {
  return static_cast<int>(guarded([&]() -> Outcome {
    const FilePtr file = handles().files.find(handle);
    if (!file) return bad_handle();
    // A callback may not wait, and keeps its handle.
    if (file->connection()->is_own_thread()) return file->connection()->call(File::close(file));
    if (!handles().files.take(handle)) return bad_handle();
    return file->connection()->call(File::close(file));
  }));
}

int64_t kintsugi_pread(kintsugi_file_t* file, void* into, size_t bytes, int64_t offset) {
  return with_file(file, check_range(into, bytes, offset), [&](const FilePtr& from) {
    return File::read(from, bytes_of(into, bytes), static_cast<uint64_t>(offset));
  });
}

int64_t kintsugi_pwrite(kintsugi_file_t* file, const void* from, size_t bytes, int64_t offset) {
  return with_file(file, check_range(from, bytes, offset), [&](const FilePtr& to) {
    return File::write(to, bytes_of(from, bytes), static_cast<uint64_t>(offset));
  });
}

int kintsugi_fsync(kintsugi_file_t* file) {
  return static_cast<int>(with_file(file, {}, [](const FilePtr& of) { return File::sync(of); }));
}

int kintsugi_fdatasync(kintsugi_file_t* file) {
  return kintsugi_fsync(file);
}

int kintsugi_ftruncate(kintsugi_file_t* file, int64_t size) {
  return static_cast<int>(
      with_file(file, size < 0 ? bad_argument("the size is negative") : Status{},
                [&](const FilePtr& of) { return File::truncate(of, static_cast<uint64_t>(size)); }));
}

int kintsugi_fallocate(kintsugi_file_t* file, int mode, int64_t offset, int64_t length) {
  Status arguments;
  if (offset < 0 || length <= 0) {
    arguments = bad_argument("the offset is negative, or the length is not above 0");
  } else if (offset > INT64_MAX - length) {
    arguments = {Code::kFileTooLarge, "a file has at most 2^63 - 1 bytes"};
  }
  return static_cast<int>(with_file(file, arguments, [&](const FilePtr& of) {
    return File::allocate(of, mode, static_cast<uint64_t>(offset), static_cast<uint64_t>(length));
  }));
}

int64_t kintsugi_lseek(kintsugi_file_t* file, int64_t offset, int whence) {
  Status arguments;
  if (whence != SEEK_DATA && whence != SEEK_HOLE) {
    arguments = bad_argument("`whence` must be SEEK_DATA or SEEK_HOLE");
  } else if (offset < 0) {
    arguments = {Code::kNoDevice, "the offset is negative"};
  }
  return with_file(file, arguments, [&](const FilePtr& of) {
    return File::seek(of, static_cast<uint64_t>(offset), whence == SEEK_DATA);
  });
}

int64_t kintsugi_copy_file_range(kintsugi_file_t* from, int64_t from_offset, kintsugi_file_t* to,
                                 int64_t to_offset, uint64_t length) {
  return guarded([&]() -> Outcome {
    const FilePtr source = handles().files.find(from), target = handles().files.find(to);
    if (!source || !target) return bad_handle();
    if (from_offset < 0 || to_offset < 0) return bad_argument("an offset is negative");
    if (source->connection() != target->connection())
      return Status{Code::kCrossDevice, "the files belong to different connections"};
    return source->connection()->call(File::copy_range(source, static_cast<uint64_t>(from_offset), target,
                                                       static_cast<uint64_t>(to_offset), length));
  });
}

// ---- attributes

int kintsugi_fstat(kintsugi_file_t* file, struct kintsugi_stat* into) {
  return static_cast<int>(with_file(file, check_pointers(any_null(into)),
                                    [&](const FilePtr& of) { return File::stat(of, into); }));
}

int kintsugi_stat(kintsugi_t* connection, const char* path, struct kintsugi_stat* into) {
  return static_cast<int>(
      with_connection(connection, check_pointers(any_null(path, into)),
                      [&](const ConnectionPtr& to) { return stat_path(to, path, LastName::kFollow, into); }));
}

int kintsugi_lstat(kintsugi_t* connection, const char* path, struct kintsugi_stat* into) {
  return static_cast<int>(with_connection(
      connection, check_pointers(any_null(path, into)),
      [&](const ConnectionPtr& to) { return stat_path(to, path, LastName::kDoNotFollow, into); }));
}

int kintsugi_statfs(kintsugi_t* connection, struct kintsugi_statfs* into) {
  return static_cast<int>(
      with_connection(connection, check_pointers(any_null(into)),
                      [&](const ConnectionPtr& to) { return stat_file_system(to, into); }));
}

int kintsugi_truncate(kintsugi_t* connection, const char* path, int64_t size) {
  Status arguments = check_pointers(any_null(path));
  if (size < 0) arguments = bad_argument("the size is negative");
  return static_cast<int>(with_connection(connection, arguments, [&](const ConnectionPtr& to) {
    proto::SetAttributesRequest request;
    request.set_size(static_cast<uint64_t>(size));
    return change_attributes(to, path, LastName::kFollow, std::move(request));
  }));
}

int kintsugi_chmod(kintsugi_t* connection, const char* path, uint32_t mode) {
  return on_path(connection, path, [&](const ConnectionPtr& to) {
    proto::SetAttributesRequest request;
    request.set_mode(mode & 07777);
    return change_attributes(to, path, LastName::kFollow, std::move(request));
  });
}

int kintsugi_chown(kintsugi_t* connection, const char* path, uint32_t uid, uint32_t gid) {
  return change_owner(connection, path, LastName::kFollow, uid, gid);
}

int kintsugi_lchown(kintsugi_t* connection, const char* path, uint32_t uid, uint32_t gid) {
  return change_owner(connection, path, LastName::kDoNotFollow, uid, gid);
}

int kintsugi_utimens(kintsugi_t* connection, const char* path, int64_t atime_ns, int64_t mtime_ns) {
  return on_path(connection, path, [&](const ConnectionPtr& to) {
    proto::SetAttributesRequest request;
    if (atime_ns == KINTSUGI_TIME_NOW) {
      request.set_accessed_now(true);
    } else if (atime_ns != KINTSUGI_TIME_OMIT) {
      request.set_accessed_ns(atime_ns);
    }
    if (mtime_ns == KINTSUGI_TIME_NOW) {
      request.set_modified_now(true);
    } else if (mtime_ns != KINTSUGI_TIME_OMIT) {
      request.set_modified_ns(mtime_ns);
    }
    return change_attributes(to, path, LastName::kFollow, std::move(request));
  });
}

// ---- names

int kintsugi_mkdir(kintsugi_t* connection, const char* path, uint32_t mode) {
  return on_path(connection, path, [&](const ConnectionPtr& to) { return make_directory(to, path, mode); });
}

int kintsugi_rmdir(kintsugi_t* connection, const char* path) {
  return on_path(connection, path,
                 [&](const ConnectionPtr& to) { return capi::remove(to, path, /*directory=*/true); });
}

int kintsugi_unlink(kintsugi_t* connection, const char* path) {
  return on_path(connection, path,
                 [&](const ConnectionPtr& to) { return capi::remove(to, path, /*directory=*/false); });
}

int kintsugi_rename(kintsugi_t* connection, const char* from, const char* to, unsigned flags) {
  return static_cast<int>(
      with_connection(connection, check_pointers(any_null(from, to)),
                      [&](const ConnectionPtr& on) { return capi::rename(on, from, to, flags); }));
}

int kintsugi_link(kintsugi_t* connection, const char* from, const char* to) {
  return static_cast<int>(with_connection(connection, check_pointers(any_null(from, to)),
                                          [&](const ConnectionPtr& on) { return make_link(on, from, to); }));
}

int kintsugi_symlink(kintsugi_t* connection, const char* target, const char* path) {
  return static_cast<int>(
      with_connection(connection, check_pointers(any_null(target, path)),
                      [&](const ConnectionPtr& on) { return make_symlink(on, target, path); }));
}

int64_t kintsugi_readlink(kintsugi_t* connection, const char* path, char* into, size_t bytes) {
  return with_connection(
      connection, check_pointers(path == nullptr || (into == nullptr && bytes > 0)),
      [&](const ConnectionPtr& to) { return read_symlink(to, path, std::span<char>(into, bytes)); });
}

// ---- directories

int kintsugi_opendir(kintsugi_t* connection, const char* path, kintsugi_dir_t** directory) {
  if (directory != nullptr) *directory = nullptr;
  return static_cast<int>(
      with_connection(connection, check_pointers(any_null(path, directory)),
                      [&](const ConnectionPtr& to) { return open_directory_handle(to, path, directory); }));
}

int kintsugi_readdir(kintsugi_dir_t* handle, struct kintsugi_dirent* entry) {
  return static_cast<int>(guarded([&]() -> Outcome {
    const auto directory = handles().directories.find(handle);
    if (!directory) return bad_handle();
    if (entry == nullptr) return null();
    return directory->next(*entry);
  }));
}

int kintsugi_closedir(kintsugi_dir_t* directory) {
  return static_cast<int>(guarded([&]() -> Outcome {
    if (!handles().directories.take(directory)) return bad_handle();
    return int64_t{0};
  }));
}

// ---- extended attributes

int64_t kintsugi_getxattr(kintsugi_t* connection, const char* path, const char* name, void* into,
                          size_t bytes) {
  return with_connection(connection, check_pointers(any_null(path, name) || (into == nullptr && bytes > 0)),
                         [&](const ConnectionPtr& to) {
                           return get_xattr(to, path, name, std::span<char>(static_cast<char*>(into), bytes));
                         });
}

int kintsugi_setxattr(kintsugi_t* connection, const char* path, const char* name, const void* value,
                      size_t bytes, int flags) {
  if (any_null(path, name) || (value == nullptr && bytes > 0))
    return change_xattr(connection, path, null(), {});
  if (flags != 0 && flags != XATTR_CREATE && flags != XATTR_REPLACE)
    return change_xattr(connection, path, bad_argument("the flags must be 0, XATTR_CREATE or XATTR_REPLACE"),
                        {});
  if (bytes > XATTR_SIZE_MAX)
    return change_xattr(connection, path, {Code::kTooBig, "the value is longer than 64 KiB"}, {});
  proto::SetXattrRequest request;
  request.set_name(name);
  request.set_value(value, bytes);
  request.set_create(flags == XATTR_CREATE);
  request.set_replace(flags == XATTR_REPLACE);
  return change_xattr(connection, path, {}, std::move(request));
}

int64_t kintsugi_listxattr(kintsugi_t* connection, const char* path, char* into, size_t bytes) {
  return with_connection(
      connection, check_pointers(path == nullptr || (into == nullptr && bytes > 0)),
      [&](const ConnectionPtr& to) { return list_xattrs(to, path, std::span<char>(into, bytes)); });
}

int kintsugi_removexattr(kintsugi_t* connection, const char* path, const char* name) {
  if (any_null(path, name)) return change_xattr(connection, path, null(), {});
  proto::SetXattrRequest request;
  request.set_name(name);
  request.set_remove(true);
  return change_xattr(connection, path, {}, std::move(request));
}

// ---- asynchronous calls

int kintsugi_aio_open(kintsugi_t* connection, const char* path, int flags, uint32_t mode,
                      kintsugi_file_t** file, kintsugi_callback callback, void* user) {
  return static_cast<int>(submit_with_connection(
      connection, check_pointers(any_null(path, file)), callback, user,
      [&](const ConnectionPtr& to) { return open_handle(to, path, flags, mode, file); }));
}

int kintsugi_aio_close(kintsugi_file_t* handle, kintsugi_callback callback, void* user) {
  return static_cast<int>(guarded([&]() -> Outcome {
    const FilePtr file = handles().files.find(handle);
    if (!file) return bad_handle();
    if (callback == nullptr) return null();
    // A close that cannot begin leaves the handle as it is.
    const Status begun = Connection::submit(file->connection(), File::close(file), callback, user);
    if (begun.ok()) handles().files.take(handle);
    return outcome_of(begun);
  }));
}

int kintsugi_aio_pread(kintsugi_file_t* file, void* into, size_t bytes, int64_t offset,
                       kintsugi_callback callback, void* user) {
  return static_cast<int>(
      submit_with_file(file, check_range(into, bytes, offset), callback, user, [&](const FilePtr& from) {
        return File::read(from, bytes_of(into, bytes), static_cast<uint64_t>(offset));
      }));
}

int kintsugi_aio_pwrite(kintsugi_file_t* file, const void* from, size_t bytes, int64_t offset,
                        kintsugi_callback callback, void* user) {
  return static_cast<int>(
      submit_with_file(file, check_range(from, bytes, offset), callback, user, [&](const FilePtr& to) {
        return File::write(to, bytes_of(from, bytes), static_cast<uint64_t>(offset));
      }));
}

int kintsugi_aio_fsync(kintsugi_file_t* file, kintsugi_callback callback, void* user) {
  return static_cast<int>(
      submit_with_file(file, {}, callback, user, [](const FilePtr& of) { return File::sync(of); }));
}

int kintsugi_aio_stat(kintsugi_t* connection, const char* path, struct kintsugi_stat* into,
                      kintsugi_callback callback, void* user) {
  return static_cast<int>(submit_with_connection(
      connection, check_pointers(any_null(path, into)), callback, user,
      [&](const ConnectionPtr& to) { return stat_path(to, path, LastName::kFollow, into); }));
}
