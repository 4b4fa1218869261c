/// The settings of a daemon of this host, as the daemon itself understands its file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/network.h"

namespace kintsugi::cli {

class DaemonSettings {
 public:
  /// Runs `program` with --check. kNotFound: there is no such program; kInvalidArgument: what it says of its file.
  static Result<DaemonSettings> ask(const std::string& program, const std::string& file);
  /// What a daemon prints with --check.
  static Result<DaemonSettings> parse(const std::string& effective);

  /// Empty when it has no such setting, or an empty one.
  std::string text(std::string_view key) const;
  std::vector<std::string> list(std::string_view key) const;
  std::optional<runtime::Endpoint> address(std::string_view key) const;
  /// Returns what the daemon prints with --check: every setting, with its default where the file has none.
  const std::string& effective() const { return effective_; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::string effective_;
};

}  // namespace kintsugi::cli
