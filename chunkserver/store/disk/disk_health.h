/// How one data disk is doing, as known without asking it: from the age of its calls, and from the errors it gave.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi::chunkserver {

enum class DiskCondition : uint8_t {
  kWell,
  kSlow,      ///< a call took longer than kSlowAfter, now or within kSlowFor
  kHung,      ///< a call has not returned for kHungAfter; what is on the disk is not lost
  kReadOnly,  ///< the file system refuses writes; what is on the disk can be read
  kFailed,    ///< the disk was dropped; only a restart tries it again
};
std::string_view name_of(DiskCondition condition);

/// Counts errors that lie close together: each is forgotten after a while, and sooner while other calls succeed.
class ErrorRate {
 public:
  static constexpr Duration kForgottenAfter = std::chrono::seconds(20);
  /// Each call that succeeds takes this much off the error rate.
  static constexpr double kForgottenBySuccess = 0.05;

  explicit ErrorRate(double limit) : limit_(limit) {}
  void succeeded() { level_ = level_ > kForgottenBySuccess ? level_ - kForgottenBySuccess : 0; }
  /// Returns whether there are now more errors than the limit.
  bool failed(TimePoint now);

 private:
  const double limit_;
  double level_ = 0;
  TimePoint counted_at_;
};

/// Reads are judged apart from writes and syncs: a bad sector costs the chunk that lies on it, and a disk fails only
/// when it gives errors all the time. `clock` outlives it.
class DiskHealth {
 public:
  static constexpr Duration kSlowAfter = std::chrono::seconds(2);
  static constexpr Duration kSlowFor = std::chrono::seconds(30);  ///< how long a slow call is remembered
  static constexpr Duration kHungAfter = std::chrono::seconds(10);
  static constexpr double kMostReadErrors = 64;
  static constexpr double kMostWriteErrors = 8;

  explicit DiskHealth(const runtime::Clock& clock) : clock_(clock) {}
  DiskHealth(const DiskHealth&) = delete;

  /// Lives while the disk carries out a call.
  class [[nodiscard]] Call {
   public:
    explicit Call(DiskHealth& health);
    ~Call();
    Call(const Call&) = delete;

   private:
    DiskHealth& health_;
    const std::list<TimePoint>::iterator began_;
  };

  const runtime::Clock& clock() const { return clock_; }
  DiskCondition condition() const;
  bool failed() const { return failed_; }
  /// False: whoever reads or writes here would wait, or get an error.
  bool answers() const { return !failed_ && !hangs(); }
  /// New chunks may be written here.
  bool takes_writes() const { return answers() && !read_only_; }
  /// One sentence for people; empty for a disk that is well.
  std::string reason() const;
  /// The age of the oldest call that has not returned; 0: there is none.
  Duration oldest_call() const;
  /// It is not found to hang before then.
  TimePoint hangs_at_soonest() const { return (calls_.empty() ? clock_.now() : calls_.front()) + kHungAfter; }
  uint64_t read_errors() const { return read_errors_; }
  uint64_t write_errors() const { return write_errors_; }

  void read_succeeded() { reads_.succeeded(); }
  void write_succeeded() { writes_.succeeded(); }
  /// Judges the error of a call. Returns true when the disk should be dropped for it: errors have become too many.
  bool note(const Status& error);
  void fail(const Status& why);

 private:
  bool hangs() const { return oldest_call() >= kHungAfter; }

  const runtime::Clock& clock_;
  std::list<TimePoint> calls_;  ///< times at which the unfinished calls began, oldest first
  ErrorRate reads_{kMostReadErrors}, writes_{kMostWriteErrors};
  uint64_t read_errors_ = 0, write_errors_ = 0;
  Duration slowest_lately_{};
  TimePoint slow_until_ = TimePoint::min();
  bool failed_ = false, read_only_ = false;
  std::string why_;  ///< why the disk failed or is read-only
};

}  // namespace kintsugi::chunkserver
