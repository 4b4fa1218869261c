#include "client/lib/read/window_plan.h"

#include <algorithm>
#include <numeric>

#include "common/base/assert.h"
#include "common/base/crc32c.h"
#include "common/base/math.h"
#include "erasure/layout.h"

namespace kintsugi::client {

Window whole_cells(const erasure::Policy& policy, Window window) {
  window.chunk_begin = round_down(window.chunk_begin, policy.cell_bytes);
  window.chunk_end = round_up(window.chunk_end, policy.cell_bytes);
  return window;
}

WindowPlan::WindowPlan(const erasure::Policy& policy, uint64_t stripe_length, uint64_t offset, uint64_t bytes,
                       uint64_t max_chunk_bytes)
    : policy_(policy),
      stripe_length_(stripe_length),
      at_(offset),
      end_(offset + bytes),
      max_chunk_bytes_(max_chunk_bytes) {
  KINTSUGI_ASSERT(end_ <= stripe_length && max_chunk_bytes % kBlockBytes == 0 && max_chunk_bytes > 0);
}

Window WindowPlan::next() {
  const uint64_t row_bytes = uint64_t{policy_.k} * policy_.cell_bytes;
  const uint64_t rows_at_once = max_chunk_bytes_ / policy_.cell_bytes;
  const uint64_t left = end_ - at_;
  if (rows_at_once == 0 || at_ % row_bytes != 0) return narrow();
  if (end_ == stripe_length_ && left <= rows_at_once * row_bytes) return wide(left);
  const uint64_t rows = std::min(rows_at_once, left / row_bytes);
  return rows > 0 ? wide(rows * row_bytes) : narrow();
}

Window WindowPlan::narrow() {
  const erasure::Location at = erasure::locate(policy_, at_);
  Window window;
  window.stripe_offset = at_;
  window.chunk_begin = round_down(at.chunk_offset, kBlockBytes);
  const uint64_t cell_end = round_down(at.chunk_offset, policy_.cell_bytes) + policy_.cell_bytes;
  const uint64_t last =
      std::min({cell_end, at.chunk_offset + (end_ - at_), window.chunk_begin + max_chunk_bytes_});
  window.bytes = last - at.chunk_offset;
  window.chunk_end = std::min(round_up(last, kBlockBytes), erasure::chunk_length(policy_, stripe_length_, 0));
  window.wanted = {at.chunk};
  at_ += window.bytes;
  return window;
}

Window WindowPlan::wide(uint64_t user_bytes) {
  Window window;
  window.stripe_offset = at_;
  window.bytes = user_bytes;
  window.chunk_begin = at_ / policy_.k;
  window.chunk_end = window.chunk_begin + erasure::chunk_length(policy_, user_bytes, 0);
  if (policy_.rows() > 1) window = whole_cells(policy_, window);
  window.wanted.resize(policy_.k);
  std::iota(window.wanted.begin(), window.wanted.end(), 0u);
  at_ += user_bytes;
  return window;
}

}  // namespace kintsugi::client
