/// Ranges of seeds as the campaigns' command lines have them: "7" or "7..9".
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace kintsugi::simulation {

/// False: `text` is not a number from its first to its last character.
inline bool parse_number(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// Both ends belong to the range. False: `text` is none, or ends before it begins.
inline bool parse_range(std::string_view text, uint64_t& first, uint64_t& last) {
  const size_t dots = text.find("..");
  if (!parse_number(text.substr(0, dots), first)) return false;
  last = first;
  return dots == std::string_view::npos || (parse_number(text.substr(dots + 2), last) && first <= last);
}

}  // namespace kintsugi::simulation
