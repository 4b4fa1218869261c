/// Quotes from people and peers in error texts.
#pragma once

#include <string>
#include <string_view>

namespace kintsugi {

/// `text` between quotation marks, short and on one line: "..." follows its first `max_bytes`, and whatever is not
/// printable ASCII becomes a question mark.
std::string quoted(std::string_view text, size_t max_bytes);

}  // namespace kintsugi
