#include "common/config/toml_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/config/nearest.h"
#include "common/config/toml.h"

namespace kintsugi::config {
namespace {

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a fraction";
    case toml::node_type::boolean: return "a boolean";
    default: return "a date or time";
  }
}

std::string scalar_text(const toml::node& node) {
  if (auto text = node.as_string()) return text->get();
  if (auto number = node.as_integer()) return fmt::format("{}", number->get());
  if (auto number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (auto flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return "";
}

}  // namespace

std::string Settings::TomlFile::explain_unknown(const std::string& key) const {
  std::vector<std::string_view> known;
  for (const Setting& setting : settings_.settings_)
    known.push_back(setting.key);
  const std::string_view meant = nearest(key, known);
  std::string hint = meant.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", meant);
  return fmt::format("unknown key \"{}\"{}", key, hint);
}

template <class Node>
Status Settings::TomlFile::apply_node(const std::string& key, const Node& node) {
  Setting& setting = *settings_.find(key);
  auto wrong = [&](std::string_view expected) {
    return Status{Code::kInvalidArgument,
                  fmt::format("{}: expected {}, got {}", key, expected, type_name(node))};
  };
  std::vector<std::string> texts;
  switch (setting.kind) {
    case Kind::kString:
    case Kind::kAddress:
      if (!node.is_string()) return wrong("a string");
      break;
    case Kind::kBool:
      if (!node.is_boolean()) return wrong("true or false");
      break;
    case Kind::kNumber:
      if (!node.is_integer()) return wrong("a whole number");
      break;
    case Kind::kBytes:
      if (!node.is_integer() && !node.is_string()) return wrong("a size such as \"64MiB\" or 4096");
      break;
    case Kind::kDouble:
      if (!node.is_number()) return wrong("a number");
      break;
    case Kind::kDuration:
      if (!node.is_string()) return wrong("a duration such as \"10s\" or \"500ms\"");
      break;
    case Kind::kList:
      if (!node.is_array()) return wrong("an array of strings");
      for (const toml::node& item : *node.as_array()) {
        if (!item.is_string()) return wrong("an array of strings only");
        texts.push_back(scalar_text(item));
      }
      break;
  }
  if (setting.kind != Kind::kList) texts = {scalar_text(node)};
  KINTSUGI_TRY(setting.set(texts).with_context(key));
  setting.given = true;
  return {};
}

template <class Table>
Status Settings::TomlFile::apply_table(const std::string& prefix, const Table& table,
                                       const std::string& name) {
  // A table is ordered by name; errors come in the order of the file.
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (auto&& [key, node] : table)
    entries.emplace_back(&key, &node);
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.first->source().begin < b.first->source().begin; });
  for (auto [toml_key, node] : entries) {
    std::string key = prefix + std::string(toml_key->str());
    bool is_section = std::any_of(settings_.settings_.begin(), settings_.settings_.end(),
                                  [&](const Setting& s) { return s.key.starts_with(key + "."); });
    if (node->is_table() && is_section) {
      KINTSUGI_TRY(apply_table(key + ".", *node->as_table(), name));
    } else if (settings_.find(key) == nullptr) {
      return error_at(name, toml_key->source(), explain_unknown(key));
    } else if (Status status = apply_node(key, *node); !status.ok()) {
      return error_at(name, toml_key->source(), status.message());
    }
  }
  return {};
}

Status Settings::TomlFile::apply(std::string_view text, const std::string& name) {
  if (text.size() > kMaxFileBytes) {
    return {Code::kInvalidArgument, fmt::format("{}: larger than {} bytes", name, kMaxFileBytes)};
  }
  KINTSUGI_ASSIGN(const toml::table table, parse_toml(text, name));
  return apply_table("", table, name);
}

Status Settings::TomlFile::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {Code::kInvalidArgument, fmt::format("{}: {}", path, std::strerror(errno))};
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && !file.eof())) {
    return {Code::kInvalidArgument, fmt::format("{}: cannot be read", path)};
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return apply(text, path);
}

}  // namespace kintsugi::config
