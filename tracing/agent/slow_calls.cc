#include "tracing/agent/slow_calls.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace kintsugi::tracing {
namespace {

double in_milliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

SlowCalls& SlowCalls::of_process() {
  // Never destroyed: a request may end when the process does.
  static SlowCalls* const calls = new SlowCalls();
  return *calls;
}

void SlowCalls::begin(rpc::Method method, std::optional<Duration> limit) {
  {
    const std::lock_guard lock(mutex_);
    active_ = true;
    method_ = method;
    told_ = limit;
    open_.clear();
    counts_ = {};
    known_ = 0;
    found_.reset();
  }
  rpc::set_call_watch(this);
}

void SlowCalls::end() {
  rpc::set_call_watch(nullptr);
  const std::lock_guard lock(mutex_);
  active_ = false;
  open_.clear();
}

uint64_t SlowCalls::began(rpc::Method method, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (!active_ || method != method_ || open_.size() >= kMostOpen) return 0;
  open_.emplace(++last_number_, now);
  return last_number_;
}

void SlowCalls::ended(uint64_t number, TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(number);
  if (open == open_.end()) return;
  const Duration took = now - open->second;
  open_.erase(open);
  judge(took, false);
  ++known_;
  ++counts_[size_of(took)];
}

std::optional<std::string> SlowCalls::found(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (active_ && !open_.empty()) judge(now - open_.begin()->second, true);
  return found_;
}

std::string SlowCalls::nothing_found() const {
  const std::lock_guard lock(mutex_);
  const std::string method(rpc::method_name(method_));
  if (known_ + open_.size() == 0) return fmt::format("no {} came meanwhile", method);
  if (const auto than = limit())
    return fmt::format("{} {} ended meanwhile, none after more than {:.1f} ms", known_, method,
                       in_milliseconds(*than));
  return fmt::format(
      "{} {} ended meanwhile, and what 99.9 % take is known of {} or more: slow:{}:TIME says it", known_,
      method, kLeastKnown, method);
}

size_t SlowCalls::size_of(Duration took) {
  const double microseconds = std::max(1.0, std::chrono::duration<double, std::micro>(took).count());
  return std::min(kSizes - 1, static_cast<size_t>(std::log2(microseconds) * kSizesOfADoubling));
}

std::optional<Duration> SlowCalls::limit() const {
  if (told_) return told_;
  if (known_ < kLeastKnown) return std::nullopt;
  uint64_t above = 0;
  const uint64_t most_above = known_ / kLeastKnown;
  size_t size = kSizes;
  while (size > 0 && above + counts_[size - 1] <= most_above)
    above += counts_[--size];
  // The sizes from `size` on are those of one in a thousand.
  const double microseconds = std::exp2(static_cast<double>(size) / kSizesOfADoubling);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::micro>(microseconds));
}

void SlowCalls::judge(Duration took, bool is_open) {
  if (found_) return;
  const auto than = limit();
  if (!than || took <= *than) return;
  const std::string others = told_ ? "" : fmt::format(", which 99.9 % of {} before it did not", known_);
  found_ = fmt::format("a {} {} {:.1f} ms, more than {:.1f} ms{}", rpc::method_name(method_),
                       is_open ? "has been served for" : "took", in_milliseconds(took),
                       in_milliseconds(*than), others);
}

}  // namespace kintsugi::tracing
