#include "common/runtime/activity_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "common/base/assert.h"

namespace kintsugi::runtime {

ActivityLog::ActivityLog(const Clock& clock, std::string who, std::span<const std::string_view> sites)
    : clock_(clock), who_(std::move(who)) {
  KINTSUGI_ASSERT(sites.size() <= kMostSites);
  for (const std::string_view name : sites) {
    const uint64_t hash = hash_name(name);
    size_t at = hash % kSlots;
    while (wanted_[at] != 0 && wanted_[at] != hash)
      at = (at + 1) % kSlots;
    wanted_[at] = hash;
  }
  append("begin", who_, clock_.wall_now().time_since_epoch());
}

void ActivityLog::start(const Site& site, uint64_t span) {
  const Duration now = clock_.wall_now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  // A second may be told twice, when the clock is set back: then it has room once more.
  if (const int64_t second = now / 1s; second != second_) tell_dropped(now);
  // Its stop will need a line, too.
  if (lines_of_second_ + 2 > kMostLinesPerSecond || lines_.size() > kMostBytes) {
    ++dropped_;
    return;
  }
  lines_of_second_ += 2;
  open_.insert(span);
  append("start", fmt::format(FMT_STRING("{} {:x}"), site.name, span), now);
}

void ActivityLog::stop(const Site& site, uint64_t span, Code outcome) {
  const Duration now = clock_.wall_now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  if (open_.erase(span) == 0) return;
  // What is first in a second begins it, or the lines of the second before would count for this one, too.
  if (now / 1s != second_) tell_dropped(now);
  append("stop", fmt::format(FMT_STRING("{} {:x} {}"), site.name, span, code_name(outcome)), now);
}

void ActivityLog::tell_dropped(Duration now) {
  lines_of_second_ = 0;
  if (dropped_ == 0 || lines_.size() > kMostBytes) return;
  append("dropped", std::to_string(std::exchange(dropped_, 0)), now);
}

void ActivityLog::append(std::string_view verb, std::string_view rest, Duration now) {
  const int64_t second = now / 1s;
  if (second != second_ || second_text_.empty()) {
    second_ = second;
    second_text_ = fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(second)));
  }
  fmt::format_to(std::back_inserter(lines_), FMT_STRING("{}.{:06}+0000 activity {} {}\n"), second_text_,
                 (now - second * 1s) / 1us, verb, rest);
}

std::string ActivityLog::take() {
  const Duration now = clock_.wall_now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  if (now / 1s != second_) tell_dropped(now);
  return std::exchange(lines_, {});
}

void ActivityLog::lost() {
  const Duration now = clock_.wall_now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  // Whatever waits is of executions that the reader does not know, or of which it misses the end.
  lines_.clear();
  open_.clear();
  if (now / 1s != second_) tell_dropped(now);
  append("begin", who_, now);
}

}  // namespace kintsugi::runtime
