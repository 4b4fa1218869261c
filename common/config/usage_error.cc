#include "common/config/usage_error.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace kintsugi::config {

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = app.remaining();
    if (extras.empty()) return text;
    const std::string& first = extras.front();
    const bool is_option = first.size() > 1 && first.starts_with('-');
    return is_option ? first + ": no such option" : first + ": one argument too many";
  }
  // The library counts and names types; its text begins with the option's name.
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return text.substr(0, text.find(": ")) + ": a value is missing";
  return text;
}

}  // namespace kintsugi::config
