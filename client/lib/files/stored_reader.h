/// Reads what is stored of a file, and reads ahead for those who go through it in order.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "client/lib/files/file_owner.h"
#include "client/lib/files/files_shared.h"
#include "client/lib/files/locator.h"
#include "client/lib/files/read_streams.h"
#include "client/lib/read/range_read.h"

namespace kintsugi::client {

/// A part of `owner`, which lives until the tasks of `shared` that were begun for it have ended.
class StoredReader {
 public:
  StoredReader(FilesShared& shared, FileOwner& owner, uint64_t inode);
  ~StoredReader();

  /// Fills `into`, which may reach beyond the end of what is stored: zeros. Tries again until the I/O timeout.
  asio::awaitable<Status> read(Context context, uint64_t offset, std::span<std::byte> into);
  /// A reader read that range of the file, which is `size` bytes long: begins to read ahead, if that pays.
  void note_read(uint64_t offset, uint64_t length, uint64_t size);

  Locator& locator() { return locator_; }
  /// The range changed: neither where it was nor what was read ahead of it is known any more.
  void forget(uint64_t begin, uint64_t end);
  /// Drops what was read ahead and not asked for since `before`.
  void drop_idle(TimePoint before);

 private:
  /// A range that is read ahead, or was.
  struct Unit {
    uint64_t begin = 0, end = 0;
    std::unique_ptr<RangeRead> read;
    std::optional<Status> result;
    bool dropped = false;  ///< the unit has been removed from units_
    TimePoint used{};
    uint64_t span = 0;  ///< the region that reads the unit, as the target of waits
  };

  asio::awaitable<Status> read_now(Context context, uint64_t offset, std::span<std::byte>& into);
  asio::awaitable<Status> try_read(Context context, uint64_t offset, std::span<std::byte>& into);
  /// A small read, with what lies behind it in the stripe when it follows on another one.
  asio::awaitable<Status> read_packed(Context context, LocatedExtent part, std::span<std::byte> into);
  asio::awaitable<void> read_unit(std::shared_ptr<void> owner, std::shared_ptr<Unit> unit);
  asio::awaitable<Status> read_unit_now(Context context, Unit& unit);
  std::shared_ptr<Unit> unit_at(uint64_t offset) const;
  /// Where a unit that begins there ends best: with a row of a stripe.
  uint64_t unit_end(uint64_t begin, uint64_t bytes, uint64_t size) const;
  void drop(Unit& unit);
  void drop_passed();

  FilesShared& shared_;
  FileOwner& owner_;
  const uint64_t inode_;
  Locator locator_;
  ReadStreams streams_;
  std::deque<std::shared_ptr<Unit>> units_;  ///< their ranges are disjoint
  runtime::Event changed_;
};

}  // namespace kintsugi::client
