/// An open file of the C interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <boost/asio/awaitable.hpp>

#include "client/capi/connection.h"
#include "client/lib/files/open_file.h"
#include "common/runtime/event.h"

namespace kintsugi::capi {

class File;
using FilePtr = std::shared_ptr<File>;

/// All operations are tasks on the connection's thread, and own the file as long as they run. After close() they are
/// kBadHandle, and the object is an empty shell that any thread may destroy.
class File {
 public:
  /// On the connection's thread. `flags`: those of open(2).
  static FilePtr open(ConnectionPtr connection, std::unique_ptr<client::OpenHandle> handle, int flags);

  const ConnectionPtr& connection() const { return connection_; }

  static asio::awaitable<Outcome> close(FilePtr self);
  static asio::awaitable<Outcome> read(FilePtr self, std::span<std::byte> into, uint64_t offset);
  static asio::awaitable<Outcome> write(FilePtr self, std::span<const std::byte> bytes, uint64_t offset);
  static asio::awaitable<Outcome> sync(FilePtr self);
  static asio::awaitable<Outcome> truncate(FilePtr self, uint64_t size);
  /// Cuts the file to nothing as O_TRUNC does, whatever the file is open for.
  static asio::awaitable<Outcome> empty(FilePtr self);
  static asio::awaitable<Outcome> allocate(FilePtr self, int mode, uint64_t offset, uint64_t length);
  static asio::awaitable<Outcome> seek(FilePtr self, uint64_t offset, bool data);
  static asio::awaitable<Outcome> copy_range(FilePtr from, uint64_t from_offset, FilePtr to,
                                             uint64_t to_offset, uint64_t length);
  static asio::awaitable<Outcome> stat(FilePtr self, struct kintsugi_stat* into);

 private:
  class Use;

  File(ConnectionPtr connection, std::unique_ptr<client::OpenHandle> handle, int flags);
  bool readable() const;
  bool writable() const;
  Status may_write() const;
  asio::awaitable<Outcome> set_size(uint64_t size);
  /// A write by others than root takes away set-ID bits, if there are any.
  bool kills_privileges() const;

  const ConnectionPtr connection_;
  const int flags_;
  bool closing_ = false;
  size_t uses_ = 0;                             ///< operations that run
  std::unique_ptr<client::OpenHandle> handle_;  ///< null: the file is closed
  std::unique_ptr<runtime::Event> idle_;        ///< notified when no operation runs any more
};

}  // namespace kintsugi::capi
