#include "common/base/server_name.h"

#include <algorithm>
#include <charconv>

#include "common/base/quote.h"

namespace kintsugi {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool may_be_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '-' ||
         c == '_' || c == ':';
}

}  // namespace

Status check_server_name(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return Status{Code::kInvalidArgument, fmt::format("{} is not a valid name for a server: {}",
                                                      quoted(name, kMaxServerNameBytes), why)};
  };
  if (name.empty() || name.size() > kMaxServerNameBytes)
    return refuse(fmt::format("it has {} characters, must have 1 to {}", name.size(), kMaxServerNameBytes));
  if (!std::ranges::all_of(name, may_be_in_name))
    return refuse("only letters, digits, '.', '-', '_' and ':' may be in it");
  if (std::ranges::all_of(name, is_digit)) return refuse("only digits would be a server's number");
  return {};
}

uint32_t number_in_server_name(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return 0;
  const std::string_view digits = name.substr(dash + 1);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  return whole && number <= kMaxWantedServerNumber ? number : 0;
}

}  // namespace kintsugi
