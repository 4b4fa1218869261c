/// Writes footers behind segments that do not grow any more, and reads them at start.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/data_disk.h"
#include "chunkserver/store/segments/segment.h"

namespace kintsugi::chunkserver {

/// After it the file ends with the footer. An error costs nothing but time at the next start, and is in the log.
/// REQUIRES: what the segment holds is durable, and nothing is appended any more.
asio::awaitable<void> seal(DataDisk& disk, std::shared_ptr<Segment> segment);

/// Fills in what the segment holds, from a file of so many bytes. False: it has no whole footer. kIoError: the disk
/// gives errors elsewhere than under the footer.
asio::awaitable<Result<bool>> read_footer(DataDisk& disk, Segment& segment, uint64_t file_bytes);

}  // namespace kintsugi::chunkserver
