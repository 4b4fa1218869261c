/// The flags of a daemon, made from its settings. Private to config.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/config/config.h"

namespace kintsugi::config {

class Settings::CommandLine {
 public:
  explicit CommandLine(Settings& settings);
  ~CommandLine();

  /// Parses the flags without applying them: the file that --config names comes first.
  Status read(int argc, const char* const* argv);
  Status apply();
  bool help_wanted() const { return help_wanted_; }
  bool description_wanted() const { return description_wanted_; }
  bool check_wanted() const { return check_wanted_; }
  const std::string& config_file() const { return config_file_; }
  std::string help() const;

 private:
  struct Parser;  // CLI11 stays in the .cc
  Settings& settings_;
  std::unique_ptr<Parser> parser_;
  /// Index: setting. The values given on the command line; empty when the flag was not given.
  std::vector<std::vector<std::string>> values_;
  std::string config_file_;
  bool help_wanted_ = false, description_wanted_ = false, check_wanted_ = false;
};

}  // namespace kintsugi::config
