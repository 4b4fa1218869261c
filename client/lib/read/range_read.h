/// Reads a range of a file that may be spread over many extents, and keeps it until it was used.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/lib/read/located_extent.h"
#include "client/lib/read/window_reader.h"
#include "client/lib/resources.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// Bytes of a file, or a hole.
struct Stretch {
  uint64_t offset = 0;  ///< offset in the file
  uint64_t length = 0;
  std::span<const std::byte> bytes;  ///< none of a hole

  bool is_hole() const { return bytes.empty(); }
};

/// Use once. Extents of one stripe that are near each other are read as one range of the stripe; different stripes, and
/// parts of a long range, are read at the same time. What lies between extents is a hole.
///
/// Memory: reserved at once before run(), so reads that run at once cannot lock each other out. A window that wants one
/// chunk begins with that chunk's buffers. If it needs other chunks and there is no memory for them, it is read again
/// when nothing of this read holds buffers any more.
class RangeRead {
 public:
  /// `extents` in file order, all with a part in [begin, end).
  RangeRead(Resources& resources, Context context, uint64_t begin, uint64_t end,
            std::vector<LocatedExtent> extents);
  ~RangeRead();

  /// How many bytes of the extent, from its beginning on, are read as one window. REQUIRES: it is not inline.
  static uint64_t first_window(const Memory& memory, const LocatedExtent& extent);

  /// Buffers that have to be free for run() to begin; at least 1.
  size_t least_buffers() const { return least_buffers_; }
  /// With so many buffers run() waits for no more, whatever is lost; unless that is more than there are.
  size_t buffers_needed() const { return buffers_needed_; }
  size_t windows() const { return windows_.size(); }
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }

  /// `lease` has least_buffers(), or fewer, and then less is read at the same time. The first error of a window that
  /// cannot be read. The caller says what its coroutine waits for.
  asio::awaitable<Status> run(Lease lease);
  /// The parts of [begin, end), which lies within the range, in order and without gaps. REQUIRES: run() succeeded.
  std::vector<Stretch> stretches(uint64_t begin, uint64_t end) const;
  /// Copies [offset, offset + into.size()): zeros for holes. REQUIRES: as for stretches().
  void copy(uint64_t offset, std::span<std::byte> into) const;
  /// Drops the bytes and hands over the memory. REQUIRES: run() has ended.
  Lease take_lease();

 private:
  /// Something that several extents share: a range of one stripe.
  struct Run {
    std::shared_ptr<const LocatedStripe> stripe;
    uint64_t begin = 0, end = 0;  ///< the range in the stripe
    size_t first_window = 0, windows = 0;
  };
  struct Part {
    StripeWindow window;  ///< the bytes that are wanted, if the stripe is inline
    std::shared_ptr<const LocatedStripe> stripe;
    bool small = false;  ///< the range lies in one block of one chunk
    std::unique_ptr<WindowReader> reader;
    std::vector<std::byte> copied;                  ///< copy of the bytes, once the buffers are given back
    std::vector<std::span<const std::byte>> bytes;  ///< the bytes, in `copied` or in buffers
    Status status;
  };

  void plan_runs();
  void plan_windows(Run& run);
  asio::awaitable<void> read_part(Part* part, Lease lease);
  /// Fetches a few bytes by one call, without buffers. False: it did not work.
  asio::awaitable<bool> read_by_call(Part& part);
  asio::awaitable<void> read_small_parts(size_t* next);
  /// Reads what there was no memory for, one after the other.
  asio::awaitable<Status> read_rest();
  /// Copies the bytes out of the buffers, which go back to lease_.
  void detach(Part& part);
  void add_stretches(const Run& run, uint64_t stripe_begin, Stretch data, std::vector<Stretch>& to) const;

  Resources& resources_;
  const Context context_;
  const uint64_t begin_, end_;
  const std::vector<LocatedExtent> extents_;
  std::vector<Run> runs_;
  std::vector<size_t> run_of_;  ///< index: extent; the run that it belongs to
  std::vector<std::unique_ptr<Part>> windows_;
  std::vector<Part*> small_;
  size_t least_buffers_ = 0, buffers_needed_ = 0;
  /// The buffers that no part holds; when run() has ended, those of the bytes that were copied.
  Lease lease_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
