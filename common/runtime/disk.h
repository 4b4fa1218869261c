/// Files, as a parameter: io_uring with O_DIRECT in production, an in-memory disk that forgets what was not
/// synced, tears writes, flips bits, fills up and fails in the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::runtime {

/// Offsets, lengths and addresses of reads and writes are multiples of this (see BufferPool).
inline constexpr size_t kDiskAlignment = 4096;

/// An open file. Operations may overlap. Destruction closes without syncing. REQUIRES: no operation is pending when
/// it is destroyed.
class File {
 public:
  virtual ~File() = default;
  /// Reads `into.size()` bytes at `offset`; returns fewer only at the end of the file.
  virtual asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<std::byte> into) = 0;
  virtual asio::awaitable<Status> write(uint64_t offset, std::span<const std::byte> from) = 0;
  /// Data and size are durable on return (fdatasync).
  virtual asio::awaitable<Status> sync() = 0;
  /// Reserves space for the first `bytes` without changing contents (kNoSpace when there is none). The size
  /// becomes at least `bytes`.
  virtual asio::awaitable<Status> allocate(uint64_t bytes) = 0;
  virtual asio::awaitable<Status> truncate(uint64_t bytes) = 0;
  virtual asio::awaitable<Result<uint64_t>> size() = 0;
};

enum class OpenMode {
  kRead,       ///< opens a file that exists, to read only
  kReadWrite,  ///< opens a file that exists, to read and write
  kCreate,     ///< makes a file, which must not exist, to read and write
};

struct DiskSpace {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  /// Identifies the file system whose space this is, unique over all machines; 0: unknown.
  uint64_t device = 0;
};

/// Tells a file or directory from every other one that exists at the same time. Once it is gone, and nobody has it
/// open, another one may get its identity.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

struct FileAttributes {
  FileIdentity identity;
  uint64_t bytes = 0;  ///< the size of a file; meaningless for a directory
};

/// The lock of a file, held from Disk::lock() until it is destroyed or its process ends. The file stays open meanwhile.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

/// Paths are absolute. One Disk object serves all paths of a machine; a chunk store uses several roots on it.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual asio::awaitable<Result<std::unique_ptr<File>>> open(std::string path, OpenMode mode) = 0;
  /// Replaces `to` atomically; that is durable after sync_directory of both parents.
  virtual asio::awaitable<Status> rename(std::string from, std::string to) = 0;
  virtual asio::awaitable<Status> remove(std::string path) = 0;
  /// Makes the parents too; ok when the directory exists.
  virtual asio::awaitable<Status> make_directory(std::string path) = 0;
  virtual asio::awaitable<Status> sync_directory(std::string path) = 0;
  /// Names of entries, sorted, without "." and "..".
  virtual asio::awaitable<Result<std::vector<std::string>>> list(std::string path) = 0;
  virtual asio::awaitable<Result<DiskSpace>> space(std::string path) = 0;
  /// Looks at the file or directory that the path names now; links are followed.
  virtual asio::awaitable<Result<FileAttributes>> attributes(std::string path) = 0;
  /// Makes the file if there is none, and locks it against all others who call this. kConflict: somebody holds it.
  virtual asio::awaitable<Result<std::unique_ptr<FileLock>>> lock(std::string path) = 0;
};

}  // namespace kintsugi::runtime
