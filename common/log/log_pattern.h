/// How a line of the log looks, wherever it goes.
#pragma once

namespace kintsugi::log {

inline constexpr const char* kPattern = "%Y-%m-%dT%H:%M:%S.%f%z %l %v";

}  // namespace kintsugi::log
