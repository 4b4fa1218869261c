#include "tracing/anomaly/call_paths.h"

#include "common/base/hash.h"

namespace kintsugi::anomaly {

size_t CallPaths::HashOfKey::operator()(const Key& key) const {
  return mix_bits(mix_bits(uint64_t{key.parent} << 32 | key.name) ^ key.site);
}

NameId CallPaths::name(std::string_view text) {
  const auto [found, added] = name_ids_.try_emplace(std::string(text), static_cast<NameId>(names_.size()));
  if (added) names_.push_back(&found->first);
  return found->second;
}

PathId CallPaths::call(PathId caller, NameId function, uint32_t site) {
  if (detail_ == Detail::kFunctions)
    while (nodes_[caller].parent != flow::kNone)
      caller = nodes_[caller].parent;
  if (detail_ != Detail::kSites) site = 0;
  return child(caller, function, site);
}

PathId CallPaths::child(PathId parent, NameId name, uint32_t site) {
  ++looked_up_;
  const auto found = ids_.find({parent, name, site});
  if (found != ids_.end()) return found->second;
  const uint32_t depth = parent == flow::kNone ? 0 : nodes_[parent].depth + 1;
  if (parent != flow::kNone && (depth > kMostDepth || nodes_.size() >= kMostPaths)) {
    ++collapsed_;
    return parent;
  }
  const auto id = static_cast<PathId>(nodes_.size());
  nodes_.push_back({parent, name, site, depth});
  ids_.emplace(Key{parent, name, site}, id);
  return id;
}

std::string CallPaths::text(PathId path, size_t most) const {
  std::vector<PathId> calls;
  PathId at = path;
  for (; nodes_[at].parent != flow::kNone; at = nodes_[at].parent)
    calls.push_back(at);
  std::string text = last_name(at) + ":";
  if (calls.size() > most) text += " ...";
  for (size_t i = std::min(most, calls.size()); i-- > 0;)
    text += (text.back() == ':' ? " " : " -> ") + last_name(calls[i]);
  return text;
}

}  // namespace kintsugi::anomaly
