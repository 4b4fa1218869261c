#include "metaserver/schema/inline_data.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "common/base/crc32c.h"
#include "common/proto/inline_data.h"
#include "metaserver/schema/stripes.h"

namespace kintsugi::metaserver {

Result<uint64_t> inline_bytes_of(const proto::WriteExtentsRequest& request) {
  uint64_t bytes = request.inline_data().size(), most = bytes;
  for (const proto::FileExtents& file : request.more()) {
    bytes += file.inline_data().size();
    most = std::max<uint64_t>(most, file.inline_data().size());
  }
  if (most > proto::kMaxInlineFileBytes || bytes > proto::kMaxInlineCallBytes) {
    return Status{
        Code::kInvalidArgument,
        fmt::format("{} bytes, {} of one file, are too many to be kept with the metadata", bytes, most)};
  }
  return bytes;
}

Status keep_inline(Transaction& transaction, StripeId id, std::string_view bytes, uint32_t crc,
                   google::protobuf::RepeatedPtrField<proto::Extent>& extents) {
  uint64_t at = 0;
  for (proto::Extent& extent : extents) {
    const bool fits = extent.stripe_id() == 0 && extent.length() <= bytes.size() - at;
    if (!fits) return {Code::kInvalidArgument, "the extents have other bytes than came with them"};
    extent.set_stripe_id(id.value);
    extent.set_stripe_offset(at);
    at += extent.length();
  }
  if (at != bytes.size()) return {Code::kInvalidArgument, "the extents have other bytes than came with them"};
  if (crc32c(std::as_bytes(std::span(bytes))) != crc)
    return {Code::kCorrupt, "the bytes are others than were sent"};
  add_inline_stripe(transaction, id, bytes, crc);
  return {};
}

}  // namespace kintsugi::metaserver
