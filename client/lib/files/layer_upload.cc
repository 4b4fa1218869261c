#include "client/lib/files/layer_upload.h"

#include <algorithm>
#include <cstring>

#include "common/base/assert.h"

namespace kintsugi::client {

PackedSource::PackedSource(const DirtyRanges& ranges) {
  for (const auto& [offset, piece] : ranges.pieces()) {
    pieces_.push_back({bytes_, piece.bytes()});
    bytes_ += piece.length();
  }
}

asio::awaitable<Result<size_t>> PackedSource::read(uint64_t offset,
                                                   std::span<const std::span<std::byte>> into) {
  size_t done = 0;
  if (offset >= bytes_) co_return done;
  auto piece = std::prev(std::ranges::upper_bound(pieces_, offset, {}, &Piece::begin));
  size_t in_piece = offset - piece->begin;
  for (const std::span<std::byte>& range : into) {
    for (size_t at = 0; at < range.size() && piece != pieces_.end();) {
      const size_t bytes = std::min(range.size() - at, piece->bytes.size() - in_piece);
      std::memcpy(range.data() + at, piece->bytes.data() + in_piece, bytes);
      at += bytes;
      done += bytes;
      in_piece += bytes;
      if (in_piece < piece->bytes.size()) continue;
      ++piece;
      in_piece = 0;
    }
  }
  co_return done;
}

void add_file_extents(const std::vector<ByteRange>& ranges,
                      const google::protobuf::RepeatedPtrField<proto::Extent>& packed,
                      google::protobuf::RepeatedPtrField<proto::Extent>& extents) {
  auto stripe = packed.begin();
  uint64_t at = 0;  // in the packed bytes
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

LayerUpload::LayerUpload(Resources& resources, Context context, uint64_t inode, const DirtyRanges& ranges)
    : resources_(resources),
      context_(context),
      inode_(inode),
      ranges_(ranges),
      source_(ranges),
      upload_(resources, {.inode = inode}, "", ranges.bytes()) {}

asio::awaitable<Status> LayerUpload::run(proto::WriteExtentsRequest& request) {
  StripedWriter stripes(resources_, context_, upload_, source_, upload_.file().name(), {});
  KINTSUGI_CO_TRY(co_await stripes.run());
  proto::OpenReadResponse packed;
  stripes.add_extents(*packed.mutable_extents());
  stripes_ = static_cast<uint64_t>(packed.extents_size());
  request.set_inode(inode_);
  request.set_upload_id(upload_.id());
  stripes.take_sealed(*request.mutable_sealed());
  add_file_extents(ranges_.runs(), packed.extents(), *request.mutable_extents());
  request.set_size_at_least(ranges_.end());
  request.set_modified_ns(ranges_.modified_ns());
  request.set_kill_privileges(ranges_.kill_privileges());
  co_return Status{};
}

}  // namespace kintsugi::client
