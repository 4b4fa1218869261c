/// Changes by others, as the metaserver tells them: what a kernel may believe that it was told by this session
/// (common/proto/promises.h).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/proto/inode.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::client {

class HeardChanges {
 public:
  using Changes = std::vector<proto::ChangedInode>;

  /// Takes the changes that the metaserver tells of.
  void told(const proto::AwaitRecallsResponse& response, TimePoint now);
  /// Returns the number of the last change that was told.
  uint64_t last_told() const { return told_; }
  /// Forgets the numbers: a metaserver that has started anew counts anew.
  void start_anew() { told_ = heard_ = 0; }

  struct Unheard {
    uint64_t number;
    TimePoint told;
    Changes changes;
  };
  /// Takes out the oldest changes that the kernel has not heard of. None: it has heard of all.
  std::optional<Unheard> take_unheard();
  /// Notes that the kernel believes nothing else any more than what was told up to that number.
  void heard(uint64_t number) { heard_ = number; }
  uint64_t last_heard() const { return heard_; }

  /// Returns for how long the answer to what was asked at `asked` may be believed, where `usually` is for how long
  /// after the question.
  Duration believable(TimePoint asked, Duration usually, TimePoint now) const;
  /// Returns true if others change names in the directory: none are to be believed.
  bool is_shared(uint64_t directory, TimePoint now) const;

 private:
  uint64_t told_ = 0, heard_ = 0;
  std::deque<Unheard> unheard_;
  TimePoint told_at_ = TimePoint::min();                  ///< when the last change was told
  std::unordered_map<uint64_t, TimePoint> shared_until_;  ///< directories in which no names are believed
};

}  // namespace kintsugi::client
