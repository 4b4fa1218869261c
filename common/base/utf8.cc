#include "common/base/utf8.h"

namespace kintsugi {

size_t utf8_character_bytes(std::string_view text) {
  const auto within = [text](size_t at, unsigned least, unsigned most) {
    if (at >= text.size()) return false;
    const auto byte = static_cast<unsigned char>(text[at]);
    return least <= byte && byte <= most;
  };
  if (within(0, 0, 0x7f)) return 1;
  if (within(0, 0xc2, 0xdf)) return within(1, 0x80, 0xbf) ? 2 : 0;
  // The second byte rules out what has a shorter form, surrogates, and what is beyond Unicode.
  if (within(0, 0xe0, 0xef)) {
    const bool second = within(1, within(0, 0xe0, 0xe0) ? 0xa0 : 0x80, within(0, 0xed, 0xed) ? 0x9f : 0xbf);
    return second && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (within(0, 0xf0, 0xf4)) {
    const bool second = within(1, within(0, 0xf0, 0xf0) ? 0x90 : 0x80, within(0, 0xf4, 0xf4) ? 0x8f : 0xbf);
    return second && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

}  // namespace kintsugi
