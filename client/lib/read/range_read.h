/// Reads a range of a file that may be spread over many extents, and keeps it until it is copied.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/lib/read/located_extent.h"
#include "client/lib/read/single_fetch.h"
#include "client/lib/read/window_reader.h"
#include "client/lib/resources.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// Use once. Extents of one stripe that are near each other are read as one range of the stripe; different stripes, and parts of
/// a long range, are read at the same time. What lies between extents is zeros.
///
/// Memory: buffers_needed(), reserved at once, so reads that run at once cannot lock each other out. A window that cannot be
/// read by its own chunk alone is read again when nothing of this read holds buffers any more.
class RangeRead {
 public:
  /// `extents` in file order, all with a part in [begin, end).
  RangeRead(Resources& resources, Context context, uint64_t begin, uint64_t end,
            std::vector<LocatedExtent> extents);
  ~RangeRead();

  /// Buffers that have to be free for run() to begin; at least 1.
  size_t buffers_needed() const { return buffers_needed_; }
  size_t windows() const { return windows_.size(); }
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }

  /// `lease` has buffers_needed(). The first error of a window that cannot be read.
  asio::awaitable<Status> run(Lease lease);
  /// Copies [offset, offset + into.size()), which lies within the range. REQUIRES: run() succeeded.
  void copy(uint64_t offset, std::span<std::byte> into) const;

 private:
  /// Something that several extents share: a range of one stripe.
  struct Run {
    std::shared_ptr<const LocatedStripe> stripe;
    uint64_t begin = 0, end = 0;  ///< in the stripe
    size_t first_window = 0, windows = 0;
  };
  struct Part {
    StripeWindow window;
    std::shared_ptr<const LocatedStripe> stripe;
    bool single = false, small = false;
    std::unique_ptr<SingleFetch> fetch;
    std::unique_ptr<WindowReader> reader;
    std::vector<std::byte> copied;                  ///< once it does not hold buffers any more
    std::vector<std::span<const std::byte>> bytes;  ///< wherever they are
    Status status;
  };

  void plan();
  asio::awaitable<void> read_part(Part* part, Lease lease);
  /// Fetches a few bytes by one call, without buffers. False: it did not work.
  asio::awaitable<bool> read_by_call(Part& part);
  asio::awaitable<void> read_small_parts(size_t* next, Lease lease);
  /// Reads what failed by any chunks that there are, one after the other.
  asio::awaitable<Status> read_again();
  /// Copies the bytes out of the buffers, and gives those back.
  void detach(Part& part);

  Resources& resources_;
  const Context context_;
  const uint64_t begin_, end_;
  const std::vector<LocatedExtent> extents_;
  std::vector<Run> runs_;
  std::vector<size_t> run_of_;  ///< by extent
  std::vector<std::unique_ptr<Part>> windows_;
  std::vector<Part*> small_;
  size_t buffers_needed_ = 0;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
