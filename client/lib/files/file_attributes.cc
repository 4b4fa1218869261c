#include "client/lib/files/file_attributes.h"

namespace kintsugi::client {

bool FileAttributes::replace(const proto::Attributes& answer, int64_t newest_ns) {
  if (answer.inode() != inode() || answer.changed_ns() < newest_ns) return false;
  known_ = answer;
  told_ns_ = answer.changed_ns();
  ++heard_;
  return true;
}

void FileAttributes::take_answer(const proto::Attributes& answer, uint64_t since) {
  const bool heard_meanwhile = since != heard_;
  replace(answer, heard_meanwhile ? known_.changed_ns() : std::numeric_limits<int64_t>::min());
}

void FileAttributes::take_written(const proto::Attributes& answer) {
  replace(answer, told_ns_);
}

FileAttributes::Adopted FileAttributes::adopt(const proto::Attributes& answer) {
  const bool same = answer.changed_ns() == known_.changed_ns() &&
                    answer.modified_ns() == known_.modified_ns() && answer.size() == known_.size();
  if (!replace(answer, known_.changed_ns())) return Adopted::kOlder;
  if (same) return Adopted::kSame;
  changed_by_others_ns_ = answer.changed_ns();
  return Adopted::kChanged;
}

void FileAttributes::set_here(const proto::Attributes& attributes) {
  const uint64_t stored_size = size();
  known_ = attributes;
  known_.set_size(stored_size);
}

}  // namespace kintsugi::client
