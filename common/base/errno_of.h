/// From a Status to what a system call of the application returns.
#pragma once

#include "common/base/status.h"

namespace kintsugi {

/// 0 for ok, else a positive errno.
int errno_of(const Status& status);

}  // namespace kintsugi
