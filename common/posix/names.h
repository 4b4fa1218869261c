/// What names and targets of links may be, as Linux limits them.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/base/status.h"

namespace kintsugi::posix {

inline constexpr size_t kMaxNameBytes = 255;
inline constexpr size_t kMaxPathBytes = 4095;  ///< longest path, and longest target of a symbolic link

/// A name that something in a directory can have. kNameTooLong, kInvalidArgument.
Status check_name(std::string_view name);
/// What a symbolic link can point to. kNotFound: it is empty; kNameTooLong.
Status check_target(std::string_view target);

}  // namespace kintsugi::posix
