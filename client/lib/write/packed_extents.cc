#include "client/lib/write/packed_extents.h"

#include <algorithm>

#include "common/base/assert.h"

namespace kintsugi::client {

void add_file_extents(const std::vector<ByteRange>& ranges, uint64_t at,
                      const google::protobuf::RepeatedPtrField<proto::Extent>& packed,
                      google::protobuf::RepeatedPtrField<proto::Extent>& extents) {
  auto stripe = packed.begin();
  for (const ByteRange& range : ranges) {
    for (uint64_t offset = range.begin; offset < range.end;) {
      while (stripe != packed.end() && at >= stripe->file_offset() + stripe->length())
        ++stripe;
      KINTSUGI_ASSERT(stripe != packed.end());
      const uint64_t bytes = std::min(range.end - offset, stripe->file_offset() + stripe->length() - at);
      proto::Extent& extent = *extents.Add();
      extent.set_file_offset(offset);
      extent.set_length(bytes);
      extent.set_stripe_id(stripe->stripe_id());
      extent.set_stripe_offset(stripe->stripe_offset() + (at - stripe->file_offset()));
      offset += bytes;
      at += bytes;
    }
  }
}

}  // namespace kintsugi::client
