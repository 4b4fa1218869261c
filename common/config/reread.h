/// Reads the settings of a program again while it runs.
#pragma once

#include <string>
#include <vector>

#include "common/config/config.h"

namespace kintsugi::config {

class Settings::Reread {
 public:
  explicit Reread(Settings& settings) : settings_(settings) {}
  /// See Settings::reread().
  Result<std::string> run(int argc, const char* const* argv);

 private:
  using Texts = std::vector<std::string>;

  Texts values() const;
  /// Gives every setting whose value differs from its text the value of that text.
  void restore(const Texts& texts);
  void set(const Setting& setting, const std::string& text);
  void set_defaults();

  Settings& settings_;
};

}  // namespace kintsugi::config
