/// Rebuilds a SegmentIndex from the files of a disk.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/data_disk.h"
#include "chunkserver/store/segments/segment_index.h"

namespace kintsugi::chunkserver {

/// Reads the headers of all segments into `index`, and cuts off torn tails. Returns how many records were found
/// damaged. REQUIRES: the index is new, and nobody writes to the segments. kIoError.
asio::awaitable<Result<uint64_t>> load_segments(DataDisk& disk, SegmentIndex& index);

}  // namespace kintsugi::chunkserver
