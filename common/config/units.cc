#include "common/config/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace kintsugi::config {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

/// Units, largest first; `format` writes the first one of each factor.
constexpr std::array<Unit, 9> kDurationUnits = {{{"d", 86'400'000'000'000},
                                                 {"h", 3'600'000'000'000},
                                                 {"min", 60'000'000'000},
                                                 {"m", 60'000'000'000},
                                                 {"s", 1'000'000'000},
                                                 {"ms", 1'000'000},
                                                 {"us", 1'000},
                                                 {"ns", 1},
                                                 {"", 0}}};
constexpr std::array<Unit, 10> kByteUnits = {{{"TiB", uint64_t{1} << 40},
                                              {"GiB", uint64_t{1} << 30},
                                              {"MiB", uint64_t{1} << 20},
                                              {"KiB", uint64_t{1} << 10},
                                              {"TB", 1'000'000'000'000},
                                              {"GB", 1'000'000'000},
                                              {"MB", 1'000'000},
                                              {"kB", 1'000},
                                              {"B", 1},
                                              {"", 1}}};

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// Parses a number with a unit; nothing when it has none of the units or is too large for `limit`.
template <size_t N>
std::optional<uint64_t> parse(std::string_view text, const std::array<Unit, N>& units, uint64_t limit) {
  size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string_view number = text.substr(0, digits), name = text.substr(digits);
  if (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  auto unit = std::find_if(units.begin(), units.end(),
                           [&](const Unit& u) { return same_ignoring_case(u.name, name); });
  if (unit == units.end() || number.empty()) return std::nullopt;
  const char* end = number.data() + number.size();
  if (number.find('.') == std::string_view::npos) {
    uint64_t whole = 0;
    auto [stop, error] = std::from_chars(number.data(), end, whole);
    if (error != std::errc{} || stop != end) return std::nullopt;
    if (unit->factor == 0) return whole == 0 ? std::optional<uint64_t>(0) : std::nullopt;
    if (whole > limit / unit->factor) return std::nullopt;
    return whole * unit->factor;
  }
  double fraction = 0;
  auto [stop, error] = std::from_chars(number.data(), end, fraction);
  double value = std::round(fraction * static_cast<double>(unit->factor));
  if (error != std::errc{} || stop != end || unit->factor == 0 || value >= static_cast<double>(limit)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(value);
}

template <size_t N>
std::string format(uint64_t value, const std::array<Unit, N>& units, std::string_view unit_of_zero) {
  if (value == 0) return fmt::format("0{}", unit_of_zero);
  for (const Unit& unit : units) {
    if (unit.factor != 0 && value % unit.factor == 0)
      return fmt::format("{}{}", value / unit.factor, unit.name);
  }
  return fmt::format("{}", value);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  auto nanoseconds = parse(text, kDurationUnits, static_cast<uint64_t>(Duration::max().count()));
  if (nanoseconds) return Duration(static_cast<int64_t>(*nanoseconds));
  return Status{Code::kInvalidArgument,
                fmt::format("expected a duration such as \"10s\" or \"500ms\", got \"{}\"", text)};
}

Result<uint64_t> parse_bytes(std::string_view text) {
  auto bytes = parse(text, kByteUnits, UINT64_MAX);
  if (bytes) return *bytes;
  return Status{Code::kInvalidArgument,
                fmt::format("expected a size such as \"64MiB\" or 4096, got \"{}\"", text)};
}

std::string format_duration(Duration duration) {
  // Unsigned: the least duration has no positive counterpart.
  const auto nanoseconds = static_cast<uint64_t>(duration.count());
  if (duration < Duration::zero()) return "-" + format(-nanoseconds, kDurationUnits, "s");
  return format(nanoseconds, kDurationUnits, "s");
}

std::string format_bytes(uint64_t bytes) {
  return format(bytes, kByteUnits, "B");
}

}  // namespace kintsugi::config
