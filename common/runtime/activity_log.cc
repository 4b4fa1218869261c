#include "common/runtime/activity_log.h"

#include <array>
#include <charconv>

#include <fmt/chrono.h>

#include "common/base/assert.h"

namespace kintsugi::runtime {
namespace {

/// Numbers as text, without what a formatter costs: every read of a chunk writes two lines.
class Digits {
 public:
  Digits(uint64_t number, int base) {
    end_ = std::to_chars(text_.data(), text_.data() + text_.size(), number, base).ptr;
  }
  std::string_view text() const { return {text_.data(), end_}; }

 private:
  std::array<char, 20> text_;
  char* end_;
};

}  // namespace

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
  append(clock_.wall_now().time_since_epoch(), {"begin", who_});
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
  append(now, {"start", site.name, Digits(span, 16).text()});
}

void ActivityLog::stop(const Site& site, uint64_t span, Code outcome) {
  const Duration now = clock_.wall_now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  if (open_.erase(span) == 0) return;
  // What is first in a second begins it, or the lines of the second before would count for this one, too.
  if (now / 1s != second_) tell_dropped(now);
  append(now, {"stop", site.name, Digits(span, 16).text(), code_name(outcome)});
}

void ActivityLog::tell_dropped(Duration now) {
  lines_of_second_ = 0;
  if (dropped_ == 0 || lines_.size() > kMostBytes) return;
  append(now, {"dropped", Digits(std::exchange(dropped_, 0), 10).text()});
}

void ActivityLog::append(Duration now, std::initializer_list<std::string_view> words) {
  const int64_t second = now / 1s;
  if (second != second_ || second_text_.empty()) {
    second_ = second;
    second_text_ = fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(second)));
  }
  const Digits microseconds(static_cast<uint64_t>((now - second * 1s) / 1us), 10);
  lines_ += second_text_;
  lines_ += '.';
  lines_.append(6 - microseconds.text().size(), '0');
  lines_ += microseconds.text();
  lines_ += "+0000 activity";
  for (const std::string_view word : words) {
    lines_ += ' ';
    lines_ += word;
  }
  lines_ += '\n';
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
  append(now, {"begin", who_});
}

}  // namespace kintsugi::runtime
