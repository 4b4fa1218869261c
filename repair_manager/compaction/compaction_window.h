/// A part of a file, as far as compaction looks at once.
#pragma once

#include <vector>

#include "client/lib/byte_range.h"
#include "client/lib/read/located_extent.h"

namespace kintsugi::repair_manager {

/// Some rows of the file's stripes.
struct CompactionWindow {
  std::vector<client::LocatedExtent> extents;  ///< extents in file order, clipped to the window

  uint64_t begin() const { return extents.front().offset; }
  uint64_t end() const { return extents.back().end(); }
  uint64_t bytes() const;
  /// The ranges of the file that the extents cover: what lies between is holes.
  std::vector<client::ByteRange> runs() const;
};

/// The extents of a window that are to be written anew. All: the bytes lie in many pieces, or more than a quarter of
/// what their stripes hold is waste. Else those that the metaserver keeps itself, of which there may be none.
CompactionWindow badly_laid(const CompactionWindow& window);

}  // namespace kintsugi::repair_manager
