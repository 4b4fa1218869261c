#include "metaserver/namespace/cuts.h"

#include <algorithm>

#include "metaserver/schema/extents.h"

namespace kintsugi::metaserver {

bool Cuts::look(const Reader& reader) {
  const auto inode = reader.get_message<proto::StoredInode>(keys::inode(id_));
  looked_through_ = !inode;
  if (!inode) return false;  // the operation that cuts the file reports that it is gone
  size_t looked_at = 0;
  bool more = false;
  const auto count = [&](const proto::Extent& extent) {
    if (looked_at++ == kLookedAt) return !(more = true);
    if (seen_++ == kMaxExtentsAStep) {
      sizes_.push_back(std::max(size_, extent.file_offset()));
      seen_ = 1;
    }
    at_ = extent.file_offset() + extent.length();
    return true;
  };
  scan_extents(reader, content_of(id_, *inode), at_, count, inode->size());
  looked_through_ = !more;
  return more;
}

bool Cuts::is_outdated(const Reader& reader) const {
  const auto inode = reader.get_message<proto::StoredInode>(keys::inode(id_));
  if (!inode || next() >= inode->size()) return false;
  constexpr size_t kMany = 2 * kMaxExtentsAStep;
  return end_of_step(reader, content_of(id_, *inode), next(), UINT64_MAX, kMany, inode->size()).extents ==
         kMany;
}

void Cuts::start_again() {
  sizes_.clear();
  seen_ = 0;
  at_ = size_;
}

}  // namespace kintsugi::metaserver
