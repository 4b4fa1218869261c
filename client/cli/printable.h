/// Names and messages as a person sees them: whatever they hold, they stay on one line and leave the terminal as it is.
#pragma once

#include <string>
#include <string_view>

namespace kintsugi::cli {

/// A name or path. What holds nothing but printable characters stays as it is; a name with anything else, with a quote
/// or a backslash, or with a blank at an end is shown as $'a\nb', which bash reads as the same name. No two names look
/// alike, and a name looks the same on a terminal and in a file.
std::string shown_name(std::string_view name);

/// A message that may quote names: what is not printable is shown as in shown_name(), and a backslash is doubled.
std::string shown_message(std::string_view message);

/// `text` as one word of a command for sh.
std::string shell_quoted(std::string_view text);

/// `text` as a string of TOML.
std::string toml_string(const std::string& text);

}  // namespace kintsugi::cli
