/// Names of instrumented regions: see common/runtime/site.h.
#pragma once

#include "common/runtime/site.h"

namespace kintsugi::sight {

using runtime::child_path;
using runtime::kMaxInputs;
using runtime::kMaxOutputs;
using runtime::Site;

}  // namespace kintsugi::sight
