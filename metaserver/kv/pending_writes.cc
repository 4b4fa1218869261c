#include "metaserver/kv/pending_writes.h"

namespace kintsugi::metaserver {

void PendingWrites::add(std::shared_ptr<const PendingBatch> batch) {
  for (const Batch::Write& write : batch->writes) {
    auto found = entries_.lower_bound(write.key);
    if (found == entries_.end() || found->first != write.key) {
      entries_.emplace_hint(found, write.key, Entry{&write.value, batch->sequence});
      continue;
    }
    // The older batch may go first: the key must live as long as the newer value.
    auto node = entries_.extract(found);
    node.key() = write.key;
    node.mapped() = {&write.value, batch->sequence};
    entries_.insert(std::move(node));
  }
  batches_.push_back(std::move(batch));
}

void PendingWrites::drop_through(uint64_t sequence) {
  while (!batches_.empty() && batches_.front()->sequence <= sequence) {
    const std::shared_ptr<const PendingBatch> batch = std::move(batches_.front());
    batches_.pop_front();
    for (const Batch::Write& write : batch->writes) {
      auto found = entries_.find(write.key);
      if (found != entries_.end() && found->second.sequence == batch->sequence) entries_.erase(found);
    }
  }
}

const std::optional<std::string>* PendingWrites::find(std::string_view key) const {
  if (entries_.empty()) return nullptr;
  auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second.value;
}

PendingWrites::Map PendingWrites::copy() const {
  Map map;
  for (const auto& [key, entry] : entries_)
    map.emplace_hint(map.end(), std::string(key), *entry.value);
  return map;
}

}  // namespace kintsugi::metaserver
