/// The attributes of one open file, as the metaserver last told them.
#pragma once

#include <cstdint>
#include <limits>

#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// No file has more: offsets are signed in POSIX.
inline constexpr uint64_t kMaxFileBytes = std::numeric_limits<int64_t>::max();

/// Answers overtake each other on their way, so one rule holds for whatever tells attributes: an older answer never
/// replaces a newer one. The time of the last change says which is older.
class FileAttributes {
 public:
  explicit FileAttributes(proto::Attributes attributes)
      : known_(std::move(attributes)), told_ns_(known_.changed_ns()) {}

  uint64_t inode() const { return known_.inode(); }
  /// What is stored, or what set_here() left. Bytes that are not written out change them further
  /// (WriteBack::attributes).
  const proto::Attributes& known() const { return known_; }
  uint64_t size() const { return known_.size(); }
  /// Counts the answers of the metaserver that were taken.
  uint64_t heard() const { return heard_; }

  /// The answer to a change of our own, which was sent when heard() was `since`. Only what was heard while the call
  /// was under way can be newer.
  void take_answer(const proto::Attributes& answer, uint64_t since);
  /// The answer to what set_here() changed. Its time here may be later than there: clocks differ.
  void take_written(const proto::Attributes& answer);

  /// Returns true if nobody else changed the file between what is known of it and the change that has this answer.
  bool is_next(const proto::Attributes& answer) const {
    const int64_t before = answer.changed_before_ns();
    return (before != 0 && before == known_.changed_ns()) || answer.changed_ns() == known_.changed_ns();
  }

  enum class Adopted { kOlder, kSame, kChanged };
  /// An answer that may tell of changes by others. kChanged: bytes that were read before may be old.
  Adopted adopt(const proto::Attributes& answer);
  /// Notes that others may have changed it between an earlier answer and the one to a change of our own.
  void may_be_changed_by_others() { changed_by_others_ns_ = known_.changed_ns(); }
  /// Returns the time of the last change in the latest answer that was kChanged, or that others may have had a part in. 0: there
  /// was none.
  int64_t changed_by_others_ns() const { return changed_by_others_ns_; }

  /// Changed without a call, under a lease. The size stays.
  void set_here(const proto::Attributes& attributes);
  /// What set_here() changed may be lost: whatever is told next is taken, unless it is older than what was told before.
  void doubt_own_changes() { known_.set_changed_ns(told_ns_); }

 private:
  /// Takes the answer unless it is older than what changed at `newest_ns`.
  bool replace(const proto::Attributes& answer, int64_t newest_ns);

  proto::Attributes known_;
  /// Time of their last change according to the metaserver, whose clock may differ from this machine's.
  int64_t told_ns_;
  int64_t changed_by_others_ns_ = 0;
  uint64_t heard_ = 0;
};

}  // namespace kintsugi::client
