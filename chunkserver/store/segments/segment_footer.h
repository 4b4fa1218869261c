/// The footer of a sealed segment: what lies in it, so that a start reads this instead of the segment.
///
/// ```
/// records and their data | entries of chunks | entries of tombstones | zeros | trailer of 64 bytes
///                        ^ Segment::end, a 4 KiB border                        the file ends here, at a 4 KiB border
/// ```
///
/// It is nothing but a copy of what the records say, and is not synced: without a whole one the segment is read from
/// end to end. It is believed only at its own place, as records are: the trailer holds the segment's salt and where
/// the footer begins.
#pragma once

#include <cstdint>
#include <span>

#include "chunkserver/store/disk/aligned_memory.h"
#include "chunkserver/store/segments/segment.h"
#include "common/base/status.h"

namespace kintsugi::chunkserver {

/// A whole number of blocks. REQUIRES: the segment does not grow any more, and has records or tombstones.
AlignedMemory encode_footer(const Segment& segment);

/// The size of the footer that ends in `block`, the last block of a file of so many bytes. kCorrupt: none ends there.
Result<uint64_t> footer_bytes(std::span<const std::byte> block, uint64_t salt, uint64_t file_bytes);

/// Fills in what the segment holds, and where that ends. `footer` has footer_bytes(). kCorrupt: it is damaged, and
/// nothing changed.
/// REQUIRES: the segment has its salt, and nothing yet.
Status decode_footer(std::span<const std::byte> footer, Segment& segment);

}  // namespace kintsugi::chunkserver
