/// Which resource a metric of the system measures. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace kintsugi::blacksheep {

enum class Resource : uint8_t { kProcessor, kMemory, kDisk, kNetwork, kDescriptors };

/// REQUIRES: is_of_the_system(metric).
Resource resource_of(const std::string& metric);
/// "processor" and so on.
const char* name_of(Resource resource);

}  // namespace kintsugi::blacksheep
