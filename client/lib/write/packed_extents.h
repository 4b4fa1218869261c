/// Ranges of files that are written behind one another, without the gaps between them.
#pragma once

#include <vector>

#include "client/lib/byte_range.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

/// Where ranges of a file lie that begin at `at` in the packed bytes, given where those do (`packed`, in order and
/// without gaps; their offsets are those in the packed bytes).
void add_file_extents(const std::vector<ByteRange>& ranges, uint64_t at,
                      const google::protobuf::RepeatedPtrField<proto::Extent>& packed,
                      google::protobuf::RepeatedPtrField<proto::Extent>& extents);

}  // namespace kintsugi::client
