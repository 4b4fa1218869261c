/// Ranges of keys in which nothing is left, so that a scan jumps over them.
///
/// RocksDB passes over each removed key until it is compacted, 0.2 to 0.4 us each: a scan behind a million of them
/// holds everybody up. What is known here is in memory only, and nothing but time is lost with it: after a start the
/// store compacts what was removed. (RocksDB has deletions of ranges itself. Until 8.5.2 its iterators may forget an
/// error of reading when they jump over one, so that a damaged file looks like one with less in it:
/// https://github.com/facebook/rocksdb/pull/11786.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace kintsugi::metaserver {

/// Single-threaded. Ranges are half-open, and those that touch are one.
class EmptyRanges {
 public:
  static constexpr size_t kMost = 4096;   ///< ranges that are kept at most; of more, the oldest is forgotten
  static constexpr size_t kWorthIt = 64;  ///< a part of a range with fewer removed keys is not remembered

  struct Range {
    std::string end;
    size_t removed = 0;  ///< approximate number of keys that were removed in the range
    uint64_t age = 0;    ///< greater numbers are younger
  };
  using Map = std::map<std::string, Range, std::less<>>;

  /// Nothing is left in [begin, end), where `removed` keys were.
  void add(std::string begin, std::string end, size_t removed);
  /// This key is there now.
  void put(std::string_view key);

  /// The first range that ends behind `key`, with its begin; end(): there is none. Valid until the next change.
  Map::const_iterator at_or_behind(std::string_view key) const;
  Map::const_iterator end() const { return ranges_.end(); }
  size_t size() const { return ranges_.size(); }

 private:
  void remember(std::string begin, Range range);
  void forget_oldest();

  Map ranges_;  ///< key: start of the range
  uint64_t age_ = 0;
};

}  // namespace kintsugi::metaserver
