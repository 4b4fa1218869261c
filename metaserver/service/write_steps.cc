#include "metaserver/service/write_steps.h"

#include <algorithm>

#include "metaserver/schema/extents.h"

namespace kintsugi::metaserver {

proto::FileExtents WriteSteps::next(const Reader& reader) {
  proto::FileExtents step;
  if (file_ == 0) {
    step.set_inode(request_.inode());
    step.set_size_at_least(request_.size_at_least());
    step.set_modified_ns(request_.modified_ns());
    step.set_kill_privileges(request_.kill_privileges());
    step.set_inline_data(request_.inline_data());
    step.set_inline_crc(request_.inline_crc());
  } else {
    step = request_.more(file_ - 1);
    step.clear_extents();
  }
  // What the metadata keep themselves is little, and written at once.
  if (!step.inline_data().empty()) {
    *step.mutable_extents() = extents();
    extent_ = extents().size();
    return step;
  }
  const auto inode = reader.get_message<proto::StoredInode>(keys::inode(InodeId{step.inode()}));
  size_t room = kMaxExtentsAStep;
  while (room > 0 && extent_ < extents().size()) {
    const proto::Extent& extent = extents().Get(extent_);
    const uint64_t end = extent.file_offset() + extent.length();
    StepEnd part{end, 0};
    if (inode && extent.length() > 0 && extent.file_offset() + written_ < end)
      part = end_of_step(reader, content_of(InodeId{step.inode()}, *inode), extent.file_offset() + written_,
                         end, room, inode->size());
    // The part that was written before belongs to the same stripe: it becomes one extent with this one. A hole needs
    // not be made twice.
    proto::Extent& put = *step.add_extents();
    put = extent;
    if (extent.stripe_id() == 0) put.set_file_offset(extent.file_offset() + written_);
    put.set_length(part.end - put.file_offset());
    room -= std::min(room, part.extents + 1);
    written_ = part.end - extent.file_offset();
    if (part.end < end) {
      step.set_size_at_least(std::min(step.size_at_least(), part.end));
      return step;
    }
    written_ = 0;
    ++extent_;
  }
  if (!ends_file() && !step.extents().empty()) {
    const proto::Extent& last = *step.extents().rbegin();
    step.set_size_at_least(std::min(step.size_at_least(), last.file_offset() + last.length()));
  }
  return step;
}

void WriteSteps::written(bool failed) {
  if (!failed && !ends_file()) return;
  ++file_;
  extent_ = 0;
  written_ = 0;
}

}  // namespace kintsugi::metaserver
