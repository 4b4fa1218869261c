/// Cuts the read of a stripe's range into windows, each of which is fetched, decoded if need be, and handed on as
/// a whole.
#pragma once

#include <cstdint>
#include <vector>

#include "erasure/policy.h"

namespace kintsugi::client {

/// A window is one range [chunk_begin, chunk_end), taken from each of some chunks. Where those are data chunks they
/// together hold `bytes` user bytes from `stripe_offset` on.
struct Window {
  uint64_t stripe_offset = 0;
  uint64_t bytes = 0;
  uint64_t chunk_begin = 0;  ///< a multiple of kBlockBytes
  /// A multiple of kBlockBytes, unless the stripe's longest chunk ends here. Other chunks may end before.
  uint64_t chunk_end = 0;
  std::vector<uint32_t> wanted;  ///< indexes of the chunks
  bool operator==(const Window&) const = default;
};

/// The window with its range of chunks widened to whole cells, as decoding takes it where rows > 1.
Window whole_cells(const erasure::Policy& policy, Window window);

/// Wide windows hold whole rows of all data chunks, for long reads; narrow ones a part of one cell, for the ragged ends
/// of a range and for cells too large to hold a row of.
class WindowPlan {
 public:
  /// Reads [offset, offset + bytes) of a stripe of `stripe_length` user bytes. A window takes at most `max_chunk_bytes`
  /// of each chunk. REQUIRES: the range lies within the stripe; max_chunk_bytes is a multiple of kBlockBytes.
  WindowPlan(const erasure::Policy& policy, uint64_t stripe_length, uint64_t offset, uint64_t bytes,
             uint64_t max_chunk_bytes);

  bool done() const { return at_ == end_; }
  /// REQUIRES: !done().
  Window next();

 private:
  Window narrow();
  Window wide(uint64_t user_bytes);

  erasure::Policy policy_;
  uint64_t stripe_length_;
  uint64_t at_, end_;  ///< the rest of the range
  uint64_t max_chunk_bytes_;
};

}  // namespace kintsugi::client
