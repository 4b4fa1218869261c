#include "client/cli/long_time.h"

#include <charconv>

namespace kintsugi::cli {

Result<Duration> parse_long_time(const std::string& text) {
  const Status refused{Code::kInvalidArgument,
                       "'" + text + "' is not a duration such as 2w, 7d, 12h, 30m or 45s"};
  constexpr uint64_t kMostSeconds = 100ull * 366 * 86'400;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc{}) return refused;
  const uint64_t seconds = unit == "w"                   ? 7 * 86'400
                           : unit == "d" || unit.empty() ? 86'400
                           : unit == "h"                 ? 3600
                           : unit == "m"                 ? 60
                           : unit == "s"                 ? 1
                                                         : 0;
  if (seconds == 0 || number > kMostSeconds / seconds) return refused;
  return Duration(std::chrono::seconds(number * seconds));
}

}  // namespace kintsugi::cli
