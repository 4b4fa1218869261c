/// Small files that were written together lie side by side in a stripe. Who reads them one after the other gets the
/// next ones with the first.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "client/lib/read/located_extent.h"

namespace kintsugi::client {

/// Bytes of stripes that were read ahead, of all files of a client. Stripes never change, so what is kept is never old;
/// what is not asked for is pushed out by what comes later. Single-threaded.
class PackedReads {
 public:
  static constexpr size_t kMaxKept = 16;     ///< ranges, each of kMaxSmallRead bytes at most
  static constexpr size_t kMaxStripes = 64;  ///< the end of the last read is remembered for so many stripes
  static constexpr uint64_t kGap = 4096;     ///< between two reads that follow one another

  /// Copies the part, if all of it is kept.
  bool copy(const LocatedExtent& part, std::span<std::byte> into);
  /// Returns the range of the stripe that is to be read for the part: it is longer than the part when that follows on
  /// the last read of the stripe.
  LocatedExtent widened(const LocatedExtent& part);
  /// Keeps what was read ahead. `from` is what widened() returned.
  void keep(const LocatedExtent& from, std::vector<std::byte> bytes);

 private:
  struct Kept {
    uint64_t stripe = 0, begin = 0;
    std::vector<std::byte> bytes;
  };
  struct Last {
    uint64_t stripe = 0, end = 0;
  };
  std::deque<Kept> kept_;  ///< the newest last
  std::deque<Last> last_;
};

}  // namespace kintsugi::client
