/// Characters of texts that may be anything.
#pragma once

#include <cstddef>
#include <string_view>

namespace kintsugi {

/// The length of the UTF-8 character that `text` begins with; 0 when it begins with none.
size_t utf8_character_bytes(std::string_view text);

}  // namespace kintsugi
