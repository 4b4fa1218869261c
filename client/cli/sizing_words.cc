#include "client/cli/sizing_words.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace kintsugi::cli {

std::pair<double, std::string_view> split_number(std::string_view text) {
  double number = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return {0, {}};
  return {number, text.substr(static_cast<size_t>(stop - text.data()))};
}

double parse_disk_bytes(std::string_view text) {
  static constexpr std::string_view kLetters = "GTP";
  const auto [number, unit] = split_number(text);
  const size_t power = unit.empty() ? std::string_view::npos : kLetters.find(unit.front());
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = unit.substr(1);
  if (rest != "" && rest != "B" && rest != "iB") return 0;
  return number * std::pow(rest == "iB" ? 1024 : 1000, static_cast<double>(power) + 3);
}

Status parse_link_rate(std::string_view option, const std::string& text, double& rate) {
  const auto [number, unit] = split_number(text);
  const double factor = unit == "g" ? 1e9 : unit == "m" ? 1e6 : 0;
  rate = number * factor / 8;
  if (rate > 0) return {};
  return {Code::kInvalidArgument,
          fmt::format("{}: {} is not a rate in bits a second, as in 25g or 500m", option, text)};
}

Status parse_percent(std::string_view option, const std::string& text, double& share) {
  const auto [number, rest] = split_number(text);
  share = number / 100;
  const bool none = text == "0" || text == "0%";
  if (none || (number > 0 && number <= 100 && (rest == "" || rest == "%"))) return {};
  return {Code::kInvalidArgument, fmt::format("{}: {} is not a percentage, as in 5%", option, text)};
}

Result<erasure::Policy> parse_short_policy(const std::string& name) {
  auto policy = erasure::Policy::parse(name);
  if (policy || name.ends_with('k')) return policy;
  return erasure::Policy::parse(name + "-1024k");
}

std::string time_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace kintsugi::cli
