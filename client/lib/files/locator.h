/// Where the stored bytes of one file are: known from answers of the metaserver, which is asked for what is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/lib/dirty/dirty_ranges.h"
#include "client/lib/files/file_owner.h"
#include "client/lib/files/files_shared.h"
#include "client/lib/files/locations.h"

namespace kintsugi::client {

/// A part of `owner`, which lives until the tasks of `shared` that were begun for it have ended.
class Locator {
 public:
  Locator(FilesShared& shared, FileOwner& owner, uint64_t inode);

  /// Asks the metaserver for what is not known of the range, and of what lies around it. One call for the file at a
  /// time: whoever else wants to know something waits, and may find it answered.
  asio::awaitable<Status> locate(Context context, uint64_t begin, uint64_t end);
  /// Has the metaserver asked for what a reader in order comes to next, if that is not known, so that nobody waits for
  /// it then. `begin`: end of what is being read ahead; `size`: that of the file.
  void locate_after(uint64_t begin, uint64_t size);

  /// Everything is known from `offset` up to the result.
  uint64_t known_from(uint64_t offset) { return locations_.known_from(offset, shared_.resources.now()); }
  /// The extents that touch the range, in order. REQUIRES: nothing was waited for since locate() of it.
  std::vector<LocatedExtent> find(uint64_t begin, uint64_t end) const { return locations_.find(begin, end); }
  /// The first byte from `offset` on that is stored, or that is in a hole; `end` when there is none before.
  asio::awaitable<Result<uint64_t>> next_data(Context context, uint64_t offset, uint64_t end);
  asio::awaitable<Result<uint64_t>> next_hole(Context context, uint64_t offset, uint64_t end);

  /// What came with the attributes of a file of that size. Empty: nothing did.
  void learn(const proto::OpenReadResponse& where, uint64_t size);
  /// These bytes were stored just now, and nobody else may change them unheard: whoever reads them back need not ask
  /// for them.
  void learn_written(const DirtyRanges& ranges);
  /// The range changed.
  void forget(uint64_t begin, uint64_t end) { locations_.forget(begin, end); }

 private:
  asio::awaitable<void> locate_ahead(std::shared_ptr<void> owner, uint64_t offset);

  FilesShared& shared_;
  FileOwner& owner_;
  const uint64_t inode_;
  Locations locations_;
  runtime::Semaphore locating_;
  bool locating_ahead_ = false;  ///< locate_ahead() runs
  uint64_t locating_span_ = 0;   ///< the region that is requesting locations, as the target of waits
};

}  // namespace kintsugi::client
