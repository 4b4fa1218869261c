/// The call paths of many traces in one forest: a tree for each binary (Mirgorodskiy 2006, sections 5.2.4, 5.3.4, 6.3.7).
///
/// A path is binary -> function -> function ..., with the call site of each call if the traces have them. Paths of
/// different traces are the same if their names are, so that a flow can be compared with one of another run.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tracing/flow/event.h"

namespace kintsugi::anomaly {

using PathId = uint32_t;
using NameId = uint32_t;

/// A deeper call counts as its caller, and so does a new path when there are so many.
inline constexpr size_t kMostDepth = 256, kMostPaths = 1u << 22;

/// What counts as one component of a profile.
enum class Detail : uint8_t {
  kFunctions,  ///< each function, whoever called it
  kPaths,      ///< each sequence of functions from the bottom of the stack
  kSites,      ///< each sequence of call sites
};

class CallPaths {
 public:
  explicit CallPaths(Detail detail = Detail::kSites) : detail_(detail) {}

  NameId name(std::string_view text);
  /// The empty path of a binary.
  PathId binary(NameId name) { return child(flow::kNone, name, 0); }
  /// `function` called from `caller` at `site`; `caller` itself beyond the limits above.
  PathId call(PathId caller, NameId function, uint32_t site);

  size_t size() const { return nodes_.size(); }
  PathId parent(PathId path) const { return nodes_[path].parent; }  ///< kNone of a binary
  uint32_t depth(PathId path) const { return nodes_[path].depth; }  ///< functions on it; 0 of a binary
  uint32_t site(PathId path) const { return nodes_[path].site; }
  const std::string& last_name(PathId path) const { return *names_[nodes_[path].name]; }
  /// "binary: main -> A -> B". `most` functions are spelled out, those nearest to the end.
  std::string text(PathId path, size_t most = 12) const;
  /// Calls and binaries that were looked up: the work of walks over traces.
  size_t looked_up() const { return looked_up_; }
  /// Calls that were counted as their callers because of the limits.
  size_t collapsed() const { return collapsed_; }

 private:
  struct Node {
    PathId parent;
    NameId name;
    uint32_t site, depth;
  };
  struct Key {
    PathId parent;
    NameId name;
    uint32_t site;
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    size_t operator()(const Key& key) const;
  };
  PathId child(PathId parent, NameId name, uint32_t site);

  Detail detail_;
  std::vector<Node> nodes_;
  std::unordered_map<Key, PathId, HashOfKey> ids_;
  std::unordered_map<std::string, NameId> name_ids_;
  std::vector<const std::string*> names_;  ///< keys of name_ids_
  size_t looked_up_ = 0, collapsed_ = 0;
};

}  // namespace kintsugi::anomaly
