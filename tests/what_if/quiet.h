/// Whoever includes this sees errors only: thousands of repairs are told at lower levels of the log.
#pragma once

#include "common/log/log.h"
#include "repair_manager/what_if/loss.h"

namespace kintsugi::what_if {

inline const bool kQuiet = (log::set_level(log::Level::kError), true);

/// Seconds from the first repair to the last one.
inline double repair_seconds(const Forecast& forecast) {
  return forecast.all_seconds.value_or(0) - forecast.begins_seconds;
}

}  // namespace kintsugi::what_if
