#include "common/base/quote.h"

namespace kintsugi {

std::string quoted(std::string_view text, size_t max_bytes) {
  std::string quote = "\"";
  for (const char c : text.substr(0, max_bytes))
    quote += c < ' ' || c > '~' ? '?' : c;
  return quote + (text.size() > max_bytes ? "...\"" : "\"");
}

}  // namespace kintsugi
