/// Changes of names that were answered here and that the metaserver does not know yet, in memory that may outlive the
/// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// A queue. Another process that is given the same region continues with what was not dropped.
class NameLog {
 public:
  static constexpr size_t kBytes = size_t{1} << 20;

  /// `region`: all zero at first, aligned to 8 bytes, and outlives the log. Empty: memory of this process.
  explicit NameLog(std::span<std::byte> region = {});

  bool empty() const { return changes_.empty(); }
  size_t size() const { return changes_.size(); }
  size_t bytes() const { return end_ - begin_; }
  size_t bytes_at(size_t i) const { return changes_[i].bytes; }
  const proto::NameChange& at(size_t i) const { return changes_[i].change; }
  /// Appends a change. Returns false if there is no room.
  bool append(proto::NameChange change);
  /// Drops the first changes, which are carried out.
  void drop(size_t count);

 private:
  struct Kept {
    proto::NameChange change;
    size_t bytes = 0;  ///< length of the entry in the region
  };
  /// One word, so that a process that dies leaves the old bounds or the new ones.
  void set_bounds(uint64_t begin, uint64_t end);
  void read();

  std::vector<std::byte> own_;
  std::span<std::byte> region_;
  uint64_t begin_ = 0, end_ = 0;  ///< behind the word of bounds
  std::deque<Kept> changes_;
};

}  // namespace kintsugi::client
