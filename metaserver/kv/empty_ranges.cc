#include "metaserver/kv/empty_ranges.h"

#include <algorithm>
#include <utility>

namespace kintsugi::metaserver {
namespace {

/// The eight bytes behind the first `skipped` ones as a number.
double number_at(std::string_view key, size_t skipped) {
  double number = 0;
  for (size_t i = skipped; i < skipped + 8; ++i)
    number = number * 256 + (i < key.size() ? static_cast<uint8_t>(key[i]) : 0);
  return number;
}

/// Which share of [begin, end) lies before the key, if keys lie evenly.
double share_before(std::string_view begin, std::string_view end, std::string_view key) {
  // Length of their common prefix, which all keys between them have, too.
  const size_t same = static_cast<size_t>(std::ranges::mismatch(begin, end).in1 - begin.begin());
  const double first = number_at(begin, same), last = number_at(end, same);
  return last <= first ? 0 : std::clamp((number_at(key, same) - first) / (last - first), 0.0, 1.0);
}

}  // namespace

EmptyRanges::Map::const_iterator EmptyRanges::at_or_behind(std::string_view key) const {
  auto found = ranges_.upper_bound(key);
  if (found != ranges_.begin() && std::string_view(std::prev(found)->second.end) > key) --found;
  return found;
}

void EmptyRanges::add(std::string begin, std::string end, size_t removed) {
  if (begin >= end) return;
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin() && std::prev(at)->second.end >= begin) --at;
  while (at != ranges_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second.end);
    removed += at->second.removed;
    at = ranges_.erase(at);
  }
  remember(std::move(begin), {std::move(end), removed, ++age_});
}

void EmptyRanges::put(std::string_view key) {
  if (ranges_.empty()) return;
  const auto found = at_or_behind(key);
  if (found == ranges_.end() || found->first > key) return;
  auto node = ranges_.extract(found);
  Range range = std::move(node.mapped());
  const auto before =
      static_cast<size_t>(static_cast<double>(range.removed) * share_before(node.key(), range.end, key));
  const size_t behind = range.removed - std::min(range.removed, before);
  if (before >= kWorthIt) remember(std::move(node.key()), {std::string(key), before, range.age});
  std::string next(key);
  next.push_back('\0');
  if (behind >= kWorthIt && next < range.end)
    remember(std::move(next), {std::move(range.end), behind, range.age});
}

void EmptyRanges::remember(std::string begin, Range range) {
  if (ranges_.size() == kMost) forget_oldest();
  ranges_.insert_or_assign(std::move(begin), std::move(range));
}

void EmptyRanges::forget_oldest() {
  ranges_.erase(std::ranges::min_element(ranges_, {}, [](const auto& range) { return range.second.age; }));
}

}  // namespace kintsugi::metaserver
