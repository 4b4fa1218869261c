#include "chunkserver/store/disk/disk_health.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::chunkserver {

std::string_view name_of(DiskCondition condition) {
  switch (condition) {
    case DiskCondition::kWell: return "well";
    case DiskCondition::kSlow: return "slow";
    case DiskCondition::kHung: return "hung";
    case DiskCondition::kReadOnly: return "read-only";
    case DiskCondition::kFailed: return "failed";
  }
  return "unknown";
}

bool ErrorRate::failed(TimePoint now) {
  level_ = std::max(0.0, level_ - to_seconds(now - counted_at_) / to_seconds(kForgottenAfter));
  counted_at_ = now;
  level_ += 1;
  return level_ > limit_;
}

DiskHealth::Call::Call(DiskHealth& health)
    : health_(health), began_(health.calls_.insert(health.calls_.end(), health.clock_.now())) {}

DiskHealth::Call::~Call() {
  const TimePoint now = health_.clock_.now();
  const Duration took = now - *began_;
  health_.calls_.erase(began_);
  if (took < kSlowAfter) return;
  health_.slowest_lately_ = now < health_.slow_until_ ? std::max(health_.slowest_lately_, took) : took;
  health_.slow_until_ = now + kSlowFor;
}

Duration DiskHealth::oldest_call() const {
  return calls_.empty() ? Duration{} : clock_.now() - calls_.front();
}

DiskCondition DiskHealth::condition() const {
  if (failed_) return DiskCondition::kFailed;
  if (hangs()) return DiskCondition::kHung;
  if (read_only_) return DiskCondition::kReadOnly;
  const bool slow = oldest_call() >= kSlowAfter || clock_.now() < slow_until_;
  return slow ? DiskCondition::kSlow : DiskCondition::kWell;
}

std::string DiskHealth::reason() const {
  switch (condition()) {
    case DiskCondition::kWell: return {};
    case DiskCondition::kSlow: {
      Duration longest = oldest_call();
      if (clock_.now() < slow_until_) longest = std::max(longest, slowest_lately_);
      return fmt::format("a call took {:.1f} s", to_seconds(longest));
    }
    case DiskCondition::kHung:
      return fmt::format("a call has not returned for {:.0f} s", to_seconds(oldest_call()));
    case DiskCondition::kReadOnly:
    case DiskCondition::kFailed: return why_;
  }
  return {};
}

bool DiskHealth::note(const Status& error) {
  switch (error.code()) {
    case Code::kMediumError: ++read_errors_; return reads_.failed(clock_.now());
    case Code::kIoError: ++write_errors_; return writes_.failed(clock_.now());
    case Code::kReadOnlyDevice:
      if (!read_only_) why_ = error.message();
      read_only_ = true;
      return false;
    default: return false;
  }
}

void DiskHealth::fail(const Status& why) {
  failed_ = true;
  why_ = why.message();
}

}  // namespace kintsugi::chunkserver
