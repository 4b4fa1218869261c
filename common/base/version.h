/// The version of all programs.
#pragma once

#include <string_view>

namespace kintsugi {

/// Returns the version of this program, "0.2.0".
std::string_view program_version();

}  // namespace kintsugi
