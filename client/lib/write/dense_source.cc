#include "client/lib/write/dense_source.h"

#include <algorithm>

namespace kintsugi::client {

DenseSource::DenseSource(Source& source) : source_(source) {
  const auto data = source.data();
  if (!data) return;
  uint64_t packed = 0;
  for (const DataRange& range : *data) {
    parts_.push_back({packed, range.begin, range.end - range.begin});
    packed += range.end - range.begin;
  }
}

size_t DenseSource::part_at(uint64_t packed) const {
  const auto behind =
      std::ranges::upper_bound(parts_, packed, {}, [](const Part& part) { return part.packed; });
  return static_cast<size_t>(behind - parts_.begin()) - 1;
}

std::optional<uint64_t> DenseSource::size() const {
  const auto size = source_.size();
  if (parts_.empty() || !size) return size;
  const Part& last = parts_.back();
  return last.packed + std::max(last.length, *size - std::min(*size, last.begin));
}

uint64_t DenseSource::file_size(uint64_t packed) const {
  if (parts_.empty()) return packed;
  return parts_.back().begin + (packed - parts_.back().packed);
}

asio::awaitable<Result<size_t>> DenseSource::read(uint64_t offset,
                                                  std::span<const std::span<std::byte>> into) {
  if (parts_.empty()) co_return co_await source_.read(offset, into);
  std::vector<std::span<std::byte>> rest(into.begin(), into.end());
  size_t done = 0, first = 0;
  for (size_t at = part_at(offset); first < rest.size(); ++at) {
    const Part& part = parts_[at];
    const bool is_last = at + 1 == parts_.size();
    const uint64_t within = offset + done - part.packed;
    uint64_t left = is_last ? UINT64_MAX : part.length - within;
    uint64_t wanted = 0;
    std::vector<std::span<std::byte>> ranges;
    while (first < rest.size() && left > 0) {
      const size_t bytes = std::min<uint64_t>(rest[first].size(), left);
      ranges.push_back(rest[first].first(bytes));
      rest[first] = rest[first].subspan(bytes);
      if (rest[first].empty()) ++first;
      wanted += bytes;
      left -= bytes;
    }
    const auto got = co_await source_.read(part.begin + within, ranges);
    if (!got) co_return got.error();
    done += *got;
    if (*got < wanted) break;
  }
  co_return done;
}

google::protobuf::RepeatedPtrField<proto::Extent> DenseSource::unpack(
    const google::protobuf::RepeatedPtrField<proto::Extent>& packed) const {
  if (parts_.empty()) return packed;
  google::protobuf::RepeatedPtrField<proto::Extent> extents;
  for (const proto::Extent& extent : packed) {
    const uint64_t end = extent.file_offset() + extent.length();
    size_t at = part_at(extent.file_offset());
    for (uint64_t from = extent.file_offset(); from < end; ++at) {
      const Part& part = parts_[at];
      const uint64_t part_end = at + 1 == parts_.size() ? end : std::min(end, part.packed + part.length);
      if (part_end == from) continue;
      proto::Extent& piece = *extents.Add();
      piece.set_file_offset(part.begin + (from - part.packed));
      piece.set_length(part_end - from);
      piece.set_stripe_id(extent.stripe_id());
      piece.set_stripe_offset(extent.stripe_offset() + (from - extent.file_offset()));
      from = part_end;
    }
  }
  return extents;
}

}  // namespace kintsugi::client
