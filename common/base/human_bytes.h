/// Sizes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace kintsugi {

std::string human_bytes(uint64_t bytes);  ///< "384.0 MiB"

}  // namespace kintsugi
