/// What a call of the C interface returns.
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace kintsugi::capi {

/// A number that is not negative, or an error.
using Outcome = Result<int64_t>;

inline Outcome outcome_of(const Status& status) {
  if (status.ok()) return int64_t{0};
  return status;
}

/// The number, or an errno with its sign turned; an error becomes the last one of this thread.
int64_t to_result(const Outcome& outcome);

/// Never null.
const char* last_error();

}  // namespace kintsugi::capi
