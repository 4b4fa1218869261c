/// The overlay that makes batches visible between their commit and the moment when the store below holds them durably.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metaserver/kv/key_value_store.h"

namespace kintsugi::metaserver {

/// A batch on its way to the disk. Immutable, so that the committer thread may read it too.
struct PendingBatch {
  uint64_t sequence = 0;
  std::vector<Batch::Write> writes;
};

/// Ordered by key, single-threaded. Entries point into the pending batches: nothing is copied.
class PendingWrites {
 public:
  void add(std::shared_ptr<const PendingBatch> batch);
  /// Forgets the batches up to `sequence`, but no key that a later one wrote again.
  void drop_through(uint64_t sequence);

  /// The pending value of a key, which is nullopt when the key was removed. Null: no pending batch wrote it.
  const std::optional<std::string>* find(std::string_view key) const;
  bool empty() const { return entries_.empty(); }

  using Map = std::map<std::string, std::optional<std::string>, std::less<>>;
  Map copy() const;

  struct Entry {
    const std::optional<std::string>* value;
    uint64_t sequence;
  };
  const std::map<std::string_view, Entry>& entries() const { return entries_; }

 private:
  /// Each key points into the batch that wrote the entry last.
  std::map<std::string_view, Entry> entries_;
  std::deque<std::shared_ptr<const PendingBatch>> batches_;
};

}  // namespace kintsugi::metaserver
