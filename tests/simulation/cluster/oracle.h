/// The oracle knows what the files of a cluster may hold, from what clients were told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::simulation {

/// The bytes of one file, remembered as what they are made from.
struct Content {
  uint64_t seed = 0;
  uint64_t size = 0;

  std::vector<std::byte> bytes() const;
  bool operator==(const Content&) const = default;
};

/// One operation at a time on a path. What was acknowledged is the only possibility; an operation that failed
/// or never ended may or may not have happened, as a whole.
class Oracle {
 public:
  void put_begins(const std::string& path, Content content);
  void remove_begins(const std::string& path);
  void put_acknowledged(const std::string& path, Content content) { files_[path] = {content}; }
  void remove_acknowledged(const std::string& path) { files_[path] = {std::nullopt}; }

  /// Judges whether `path` may look like that: bytes, or the error a read ended with. Otherwise says what is wrong.
  Status check(const std::string& path, const Result<std::vector<std::byte>>& seen) const;
  /// The only possible content; nullopt when there are several, or there is no file.
  std::optional<Content> content(const std::string& path) const;
  /// Exactly one content is possible.
  bool certain(const std::string& path) const;
  std::vector<std::string> paths() const;

 private:
  /// nullopt: no such file. Never empty.
  using Possibilities = std::vector<std::optional<Content>>;
  Possibilities& possibilities(const std::string& path);

  std::map<std::string, Possibilities> files_;
};

}  // namespace kintsugi::simulation
