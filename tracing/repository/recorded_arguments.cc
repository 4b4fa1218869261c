#include "tracing/repository/recorded_arguments.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tracing/records/format.h"
#include "tracing/repository/names.h"

namespace kintsugi::tracing {
namespace {

struct OfFunction {
  std::string_view function;  ///< its short name
  uint8_t places = 0;
};
constexpr uint8_t kFirst = 1, kSecond = 2, kFirstFive = 31;
constexpr std::array<OfFunction, 5> kFunctions{{{kFrameSent, kFirstFive},
                                                {kFrameReceived, kFirstFive},
                                                {kPosted, kSecond},
                                                {kPostedLater, kSecond},
                                                {kPostedDone, kSecond}}};

}  // namespace

Status check(std::span<const RecordedValues> values) {
  if (values.size() > RecordedValues::kMost)
    return {Code::kLimitExceeded,
            fmt::format("values of at most {} functions are recorded", RecordedValues::kMost)};
  for (const RecordedValues& each : values)
    if (each.function.empty() || each.function.size() > RecordedValues::kMostLetters || each.places == 0 ||
        each.places >> kReturnedPlace != 0)
      return {Code::kInvalidArgument,
              "a value that is recorded is an argument, or what is returned, of a named function"};
  return {};
}

uint8_t recorded_arguments(std::string_view mangled) {
  if (mangled.ends_with(kResumed) || mangled.ends_with(kDestroyed) || mangled.ends_with(kCleanedUp))
    return kFirst;
  for (const OfFunction& each : kFunctions) {
    // A mangled name has the parts of the name in it: few have to be made readable.
    const std::string_view last = each.function.substr(each.function.rfind(':') + 1);
    if (mangled.find(last) != std::string_view::npos && short_name(mangled) == each.function)
      return each.places;
  }
  return 0;
}

}  // namespace kintsugi::tracing
