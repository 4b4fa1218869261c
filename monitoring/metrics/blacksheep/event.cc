#include "monitoring/metrics/blacksheep/event.h"

#include <array>
#include <charconv>
#include <chrono>

namespace kintsugi::blacksheep {

namespace {

/// The number of these digits; false: they are none.
bool digits(std::string_view text, int64_t& value) {
  value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = 10 * value + (c - '0');
  }
  return true;
}

/// Nanoseconds of "2026-11-22T00:36:37.123456+0000"; false: it is no time.
bool time_of(std::string_view text, int64_t& ns) {
  constexpr size_t kLength = 31;
  if (text.size() != kLength || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':' || text[19] != '.' || (text[26] != '+' && text[26] != '-'))
    return false;
  struct Part {
    size_t begin, length;
  };
  constexpr std::array<Part, 9> kParts{
      {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}, {20, 6}, {27, 2}, {29, 2}}};
  std::array<int64_t, kParts.size()> n{};
  for (size_t i = 0; i < kParts.size(); ++i) {
    if (!digits(text.substr(kParts[i].begin, kParts[i].length), n[i])) return false;
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(n[0])),
                                         std::chrono::month(static_cast<unsigned>(n[1])),
                                         std::chrono::day(static_cast<unsigned>(n[2]))};
  if (!date.ok() || n[3] > 23 || n[4] > 59 || n[5] > 60) return false;
  const int64_t east = (text[26] == '-' ? -1 : 1) * (n[7] * 60 + n[8]);
  const int64_t minutes = std::chrono::sys_days(date).time_since_epoch().count() * 1440 + n[3] * 60 + n[4];
  ns = ((minutes - east) * 60 + n[5]) * 1'000'000'000 + n[6] * 1000;
  return true;
}

/// Takes the word up to the next space off the front of `rest`.
std::string_view next_word(std::string_view& rest) {
  const size_t end = rest.find(' ');
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return word;
}

EventKind kind_of(std::string_view verb) {
  if (verb == "start") return EventKind::kStart;
  if (verb == "stop") return EventKind::kStop;
  if (verb == "instant") return EventKind::kInstant;
  if (verb == "error") return EventKind::kError;
  if (verb == "begin") return EventKind::kBegin;
  if (verb == "dropped") return EventKind::kDropped;
  return EventKind::kNoOp;
}

}  // namespace

Event activity_event(std::string_view line, int64_t) {
  Event event;
  std::string_view rest = line;
  if (!time_of(next_word(rest), event.t_ns) || next_word(rest) != "activity") return {};
  event.kind = kind_of(next_word(rest));
  if (event.kind == EventKind::kStart || event.kind == EventKind::kStop ||
      event.kind == EventKind::kInstant) {
    event.state = next_word(rest);
    if (event.kind != EventKind::kInstant) event.execution = next_word(rest);
    const bool whole =
        !event.state.empty() && (event.kind == EventKind::kInstant || !event.execution.empty());
    return whole ? event : Event{};
  }
  if (event.kind == EventKind::kDropped) {
    const std::string_view number = next_word(rest);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), event.count);
    if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) return {};
  }
  return event;
}

}  // namespace kintsugi::blacksheep
