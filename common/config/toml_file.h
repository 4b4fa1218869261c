/// Settings from a TOML file. Private to config.
#pragma once

#include <string>
#include <string_view>

#include "common/config/config.h"

namespace kintsugi::config {

class Settings::TomlFile {
 public:
  /// toml++ 3.3 recurses for each part of a dotted key: this is as deep as any stack of ours allows.
  static constexpr size_t kMaxFileBytes = 16 << 10;

  explicit TomlFile(Settings& settings) : settings_(settings) {}

  Status load(const std::string& path);
  /// `name` stands for the file in errors: "name:line: ...".
  Status apply(std::string_view toml, const std::string& name);

 private:
  std::string explain_unknown(const std::string& key) const;
  template <class Node>
  Status apply_node(const std::string& key, const Node& node);
  template <class Table>
  Status apply_table(const std::string& prefix, const Table& table, const std::string& name);

  Settings& settings_;
};

}  // namespace kintsugi::config
