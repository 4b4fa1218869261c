#include "repair_manager/compaction/compaction_window.h"

namespace kintsugi::repair_manager {
namespace {

using client::LocatedExtent;

constexpr size_t kMinPieces = 16;              ///< fewer are not worth the work
constexpr uint64_t kMaxPieceBytes = 32 << 10;  ///< the average piece of a window that lies in too many

/// This extent's share of the bytes of its stripe that no file has.
double waste_of(const LocatedExtent& extent) {
  const proto::Stripe& stripe = extent.stripe->stripe;
  if (stripe.live_bytes() == 0 || stripe.live_bytes() >= stripe.length()) return 0;
  return static_cast<double>(stripe.length() - stripe.live_bytes()) * static_cast<double>(extent.length) /
         static_cast<double>(stripe.live_bytes());
}

bool is_worth_it(const CompactionWindow& window) {
  double waste = 0;
  size_t pieces = 0;
  const LocatedExtent* last = nullptr;
  for (const LocatedExtent& extent : window.extents) {
    const bool goes_on = last != nullptr && last->stripe == extent.stripe && last->end() == extent.offset &&
                         last->stripe_offset + last->length == extent.stripe_offset;
    if (!goes_on) ++pieces;
    last = &extent;
    waste += waste_of(extent);
  }
  const uint64_t bytes = window.bytes();
  return (pieces >= kMinPieces && bytes / pieces < kMaxPieceBytes) || waste * 3 > static_cast<double>(bytes);
}

}  // namespace

uint64_t CompactionWindow::bytes() const {
  uint64_t bytes = 0;
  for (const LocatedExtent& extent : extents)
    bytes += extent.length;
  return bytes;
}

std::vector<client::ByteRange> CompactionWindow::runs() const {
  std::vector<client::ByteRange> runs;
  for (const LocatedExtent& extent : extents) {
    if (!runs.empty() && runs.back().end == extent.offset) {
      runs.back().end = extent.end();
    } else {
      runs.push_back({extent.offset, extent.end()});
    }
  }
  return runs;
}

CompactionWindow badly_laid(const CompactionWindow& window) {
  CompactionWindow badly = window;
  if (!is_worth_it(window))
    std::erase_if(badly.extents, [](const LocatedExtent& extent) { return !extent.stripe->is_inline(); });
  return badly;
}

}  // namespace kintsugi::repair_manager
