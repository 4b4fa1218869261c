#include "client/cli/daemon_settings.h"

#include <array>
#include <cstdio>
#include <filesystem>

#include <sys/wait.h>

#include "client/cli/printable.h"
#include "common/config/toml.h"

namespace kintsugi::cli {
namespace {

constexpr size_t kMostOutput = 256 << 10;

std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return "";
}

void collect(const std::string& prefix, const toml::table& table,
             std::map<std::string, std::vector<std::string>, std::less<>>& into) {
  for (auto&& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      collect(name + ".", *inner, into);
    } else if (const toml::array* items = node.as_array()) {
      for (const toml::node& item : *items)
        into[name].push_back(text_of(item));
    } else if (std::string text = text_of(node); !text.empty()) {
      into[name].push_back(std::move(text));
    }
  }
}

}  // namespace

Result<DaemonSettings> DaemonSettings::ask(const std::string& program, const std::string& file) {
  if (!std::filesystem::exists(program))
    return Status{Code::kNotFound, fmt::format("{} is not installed on this host", program)};
  const std::string command =
      fmt::format("{} --config {} --check 2>&1", shell_quoted(program), shell_quoted(file));
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return status_from_errno(errno, program);
  std::string output;
  std::array<char, 4096> piece;
  for (size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    if (output.size() < kMostOutput) output.append(piece.data(), got);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return parse(output);
  // "kintsugi-monitor: /etc/kintsugi/monitor.toml:3: ...": whose words they are is known here.
  const size_t words = output.find(": ");
  std::string said = words == output.npos ? output : output.substr(words + 2);
  while (!said.empty() && said.back() == '\n')
    said.pop_back();
  return Status{Code::kInvalidArgument, said.empty() ? program + " cannot be run" : said};
}

Result<DaemonSettings> DaemonSettings::parse(const std::string& effective) {
  KINTSUGI_ASSIGN(const toml::table table, config::parse_toml(effective, "the settings"));
  DaemonSettings settings;
  collect("", table, settings.values_);
  settings.effective_ = effective;
  return settings;
}

std::string DaemonSettings::text(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? "" : found->second.front();
}

std::vector<std::string> DaemonSettings::list(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::optional<runtime::Endpoint> DaemonSettings::address(std::string_view key) const {
  const auto parsed = runtime::Endpoint::parse(text(key));
  return parsed ? std::optional(*parsed) : std::nullopt;
}

}  // namespace kintsugi::cli
