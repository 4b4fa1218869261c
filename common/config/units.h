/// Durations and sizes as people write them: "10s", "500ms", "64MiB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi::config {

/// Parses a number, possibly with a fraction, and one of ns, us, ms, s, min (m), h, d; "0" needs no unit.
/// kInvalidArgument says which form was expected.
Result<Duration> parse_duration(std::string_view text);
/// Parses a number and B, KiB, MiB, GiB, TiB, kB, MB, GB, TB (in any case); a plain number is bytes.
Result<uint64_t> parse_bytes(std::string_view text);

/// The shortest exact form that parses back: "1500ms", "64MiB", "0s", "1000B".
std::string format_duration(Duration duration);
std::string format_bytes(uint64_t bytes);

}  // namespace kintsugi::config
