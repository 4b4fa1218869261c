/// Whoever includes this sees errors only: thousands of repairs are told at lower levels of the log.
#pragma once

#include "common/log/log.h"

namespace kintsugi::what_if {

inline const bool kQuiet = (log::set_level(log::Level::kError), true);

}  // namespace kintsugi::what_if
