#include "client/cli/printable.h"

#include <fmt/format.h>

#include "client/cli/json.h"
#include "common/base/utf8.h"

namespace kintsugi::cli {
namespace {

/// Not control characters, of which Unicode has some more; not what begins a new line or turns the direction of the
/// text around it.
bool is_printable(std::string_view character) {
  const auto within = [character](std::string_view first, std::string_view last) {
    return character.size() == first.size() && first <= character && character <= last;
  };
  return !within(std::string_view("\0", 1), "\x1f") && !within("\x7f", "\x7f") &&
         !within("\xc2\x80", "\xc2\x9f") && !within("\xe2\x80\xa8", "\xe2\x80\xae") &&
         !within("\xe2\x81\xa6", "\xe2\x81\xa9");
}

std::string escaped(std::string_view character) {
  if (character == "\n") return "\\n";
  if (character == "\t") return "\\t";
  std::string escaped;
  for (const char byte : character)
    escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return escaped;
}

/// The text with a backslash before each of the characters in `special`, and all that is not printable as escapes.
std::string escape(std::string_view text, std::string_view special) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = utf8_character_bytes(text);
    const std::string_view character = text.substr(0, bytes > 0 ? bytes : 1);
    if (bytes == 0 || !is_printable(character)) {
      out += escaped(character);
    } else {
      if (special.find(character) != std::string_view::npos) out += '\\';
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string shown_name(std::string_view name) {
  const std::string escaped = escape(name, "\\'");
  const bool plain = escaped == name && name.find('"') == std::string_view::npos && !name.starts_with(' ') &&
                     !name.ends_with(' ');
  return plain ? escaped : "$'" + escaped + "'";
}

std::string shown_message(std::string_view message) {
  return escape(message, "\\");
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text)
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string toml_string(const std::string& text) {
  // Basic strings of TOML escape as JSON does.
  return Json(text).compact();
}

}  // namespace kintsugi::cli
