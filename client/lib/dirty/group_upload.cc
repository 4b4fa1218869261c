#include "client/lib/dirty/group_upload.h"

#include <algorithm>
#include <cstring>

#include "common/base/assert.h"
#include "common/base/crc32c.h"
#include "common/proto/inline_data.h"

namespace kintsugi::client {

void PackedSource::add(const DirtyRanges& ranges) {
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

namespace {

uint64_t bytes_of(const std::vector<UploadMember>& members) {
  uint64_t bytes = 0;
  for (const UploadMember& member : members)
    bytes += member.ranges->bytes();
  return bytes;
}

/// The policy is known of nearly every file, and then no file needs to exist any more for the others to be written.
/// Whoever may write one of the members may allocate for all: what it may change is decided when they are written.
WhichFile file_of(const std::vector<UploadMember>& members) {
  return {.inode = members.front().inode};
}

template <class Message>
void describe(const UploadMember& member, Message& file) {
  file.set_inode(member.inode);
  file.set_size_at_least(member.ranges->end());
  file.set_modified_ns(member.ranges->modified_ns());
  file.set_kill_privileges(member.ranges->kill_privileges());
}

/// With the first member that is told, the request itself, and with each other one a part of it.
template <class Tell>
void tell_of(proto::WriteExtentsRequest& request, const std::vector<size_t>& told, const Tell& tell) {
  if (told.empty()) {
    tell(request);
  } else {
    tell(*request.add_more());
  }
}

}  // namespace

bool fits_inline(const std::vector<UploadMember>& members) {
  const auto small = [](const UploadMember& member) {
    return member.ranges->bytes() <= proto::kMaxInlineFileBytes;
  };
  return std::ranges::all_of(members, small) && bytes_of(members) <= proto::kMaxInlineCallBytes;
}

proto::WriteExtentsRequest inline_request(const std::vector<UploadMember>& members,
                                          std::vector<size_t>& told) {
  proto::WriteExtentsRequest request;
  for (size_t i = 0; i < members.size(); ++i) {
    const UploadMember& member = members[i];
    if (*member.discarded) continue;
    tell_of(request, told, [&](auto& file) {
      describe(member, file);
      std::string& data = *file.mutable_inline_data();
      data.reserve(member.ranges->bytes());
      for (const auto& [offset, piece] : member.ranges->pieces())
        data.append(reinterpret_cast<const char*>(piece.bytes().data()), piece.length());
      file.set_inline_crc(crc32c(std::as_bytes(std::span(data))));
      for (const ByteRange& run : member.ranges->runs()) {
        proto::Extent& extent = *file.add_extents();
        extent.set_file_offset(run.begin);
        extent.set_length(run.length());
      }
    });
    told.push_back(i);
  }
  return request;
}

GroupUpload::GroupUpload(Resources& resources, Context context, std::vector<UploadMember> members,
                         std::unique_ptr<Upload> prepared)
    : resources_(resources),
      context_(context),
      members_(std::move(members)),
      upload_(prepared ? std::move(prepared)
                       : std::make_unique<Upload>(resources, file_of(members_), members_.front().policy,
                                                  bytes_of(members_))) {
  for (const UploadMember& member : members_)
    source_.add(*member.ranges);
}

std::unique_ptr<Upload> GroupUpload::prepare(Resources& resources, Context context,
                                             const erasure::Policy& policy, uint64_t inode) {
  auto upload =
      std::make_unique<Upload>(resources, WhichFile{.inode = inode}, policy.name(), policy.cell_bytes);
  upload->allocate_ahead(context);
  return upload;
}

asio::awaitable<Status> GroupUpload::run() {
  const std::string name = fmt::format("inode {}", members_.front().inode);
  writer_.emplace(resources_, context_, *upload_, source_, name, StripedWriter::Progress{});
  KINTSUGI_CO_TRY(co_await writer_->run());
  writer_->add_extents(*packed_.mutable_extents());
  co_return Status{};
}

proto::WriteExtentsRequest GroupUpload::request(std::vector<size_t>& told) {
  proto::WriteExtentsRequest request;
  request.set_upload_id(upload_->id());
  writer_->take_sealed(*request.mutable_sealed());
  uint64_t at = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    const UploadMember& member = members_[i];
    const uint64_t begin = std::exchange(at, at + member.ranges->bytes());
    if (*member.discarded) continue;
    tell_of(request, told, [&](auto& file) {
      describe(member, file);
      add_file_extents(member.ranges->runs(), begin, packed_.extents(), *file.mutable_extents());
    });
    told.push_back(i);
  }
  return request;
}

}  // namespace kintsugi::client
