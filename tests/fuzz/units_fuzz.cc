// Durations and sizes as people write them.
#include "common/config/units.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace config;

std::vector<std::string> seeds() {
  return {"10s",
          "500ms",
          "1.5h",
          "15 min",
          "0",
          "0.25d",
          "106751d",
          "9223372036854775807ns",
          "9223372036.854775807s",
          "64MiB",
          "4096",
          "1.5TiB",
          "10 kb",
          "16EiB",
          "18446744073709551615",
          "18446744073709551615B",
          "16777216TiB",
          "0.1B",
          ".5s",
          "1.s",
          "1..2s",
          "-1s"};
}

void check_values(uint64_t value) {
  const auto bytes = parse_bytes(format_bytes(value));
  require(bytes && *bytes == value, "a size is parsed as it was printed");
  const Duration duration(static_cast<int64_t>(value));
  const std::string text = format_duration(duration);
  if (duration < Duration::zero())
    return require(text.starts_with('-'), "a negative duration is printed as one");
  const auto parsed = parse_duration(text);
  require(parsed && *parsed == duration, "a duration is parsed as it was printed");
}

void check(std::string_view input) {
  if (const auto duration = parse_duration(input)) {
    require(*duration >= Duration::zero(), "a duration is not negative");
    check_values(static_cast<uint64_t>(duration->count()));
  } else {
    require(duration.error().code() == Code::kInvalidArgument, "what is no duration is an invalid argument");
  }
  if (const auto bytes = parse_bytes(input)) {
    check_values(*bytes);
  } else {
    require(bytes.error().code() == Code::kInvalidArgument, "what is no size is an invalid argument");
  }
  check_values(Input(input).number<uint64_t>());
}

const Registration registration{{"units", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
