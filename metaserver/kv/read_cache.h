/// Recently read values in memory. RocksDB answers a get from its memtable in about 2 us, mostly comparing keys along a
/// skip list; a path lookup is several gets, and most of them hit the same few directories.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kintsugi::metaserver {

/// The values that were used least recently go first. Single-threaded.
class ReadCache {
 public:
  explicit ReadCache(size_t max_bytes) : max_bytes_(max_bytes) {
    // A table that grows is filled anew while everybody waits: 80 ms for some 400,000 values.
    index_.reserve(max_bytes / kOverhead);
  }

  const std::string* find(std::string_view key) {
    auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->value;
  }

  void insert(std::string_view key, std::string_view value) {
    // One large value is not worth what it would evict.
    if (cost(key.size(), value.size()) > max_bytes_ / 16) return;
    entries_.push_front({std::string(key), std::string(value)});
    index_.insert_or_assign(entries_.front().key, entries_.begin());
    bytes_ += cost(key.size(), value.size());
    while (bytes_ > max_bytes_)
      erase(std::prev(entries_.end()));
  }

  /// The key was written: its cached value, if there is one, follows.
  void write(std::string_view key, const std::optional<std::string>& value) {
    auto found = index_.find(key);
    if (found == index_.end()) return;
    if (!value) return erase(found->second);
    bytes_ += value->size();
    bytes_ -= found->second->value.size();
    found->second->value = *value;
  }

  size_t bytes() const { return bytes_; }
  size_t size() const { return index_.size(); }

 private:
  struct Entry {
    std::string key, value;
  };
  static constexpr size_t kOverhead = 160;  ///< memory of list, index and allocator for one entry
  static size_t cost(size_t key, size_t value) { return key + value + kOverhead; }

  void erase(std::list<Entry>::iterator entry) {
    bytes_ -= cost(entry->key.size(), entry->value.size());
    index_.erase(entry->key);
    entries_.erase(entry);
  }

  size_t max_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;                                                ///< most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_;  ///< keys point into `entries_`
};

}  // namespace kintsugi::metaserver
