/// Reading and writing protobuf values in the KeyValueStore.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/message_lite.h>

#include "common/base/assert.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/schema/keys.h"

namespace kintsugi::metaserver {

/// Reads messages from the live store or a snapshot. The view must outlive it.
class Reader {
 public:
  Reader(const ReadView& view) : view_(view) {}  // NOLINT(google-explicit-constructor)

  using Visit = std::function<bool(std::string_view, std::string_view)>;

  const ReadView& view() const { return view_; }
  std::optional<std::string> get(std::string_view key) const { return view_.get(key); }
  void scan(const keys::Range& range, const Visit& visit) const { view_.scan(range.begin, range.end, visit); }
  template <class Message>
  std::optional<Message> get_message(std::string_view key) const {
    const std::optional<std::string> bytes = get(key);
    if (!bytes) return std::nullopt;
    return parse<Message>(*bytes);
  }
  template <class Message>
  static Message parse(std::string_view bytes) {
    Message message;
    // The store returns what was put. Anything else is a damaged store, and acting on it would spread the damage.
    KINTSUGI_ASSERT(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    return message;
  }

 private:
  const ReadView& view_;
};

/// Gathers the writes of one operation into one batch. `get` sees them; `scan` sees only the store.
///
/// It lives between two suspension points: built, filled and handed to the store without waiting. So nothing can change
/// below it, and what it read still holds when its batch is applied.
class Transaction {
 public:
  /// `store` is what the batch will be given to, or anything else when it only reads.
  explicit Transaction(const ReadView& store) : store_(store), reader_(store) {}

  std::optional<std::string> get(std::string_view key) const {
    if (auto found = writes_.find(key); found != writes_.end()) return found->second;
    return store_.get(key);
  }
  template <class Message>
  std::optional<Message> get_message(std::string_view key) const {
    const std::optional<std::string> bytes = get(key);
    if (!bytes) return std::nullopt;
    return Reader::parse<Message>(*bytes);
  }
  void scan(const keys::Range& range, const Reader::Visit& visit) const { reader_.scan(range, visit); }
  const Reader& store() const { return reader_; }

  void put(std::string key, std::string value) { writes_.insert_or_assign(std::move(key), std::move(value)); }
  void put_message(std::string key, const google::protobuf::MessageLite& message) {
    put(std::move(key), message.SerializeAsString());
  }
  void remove(std::string key) { writes_.insert_or_assign(std::move(key), std::nullopt); }

  /// All that the store has in the range was removed in this transaction, `removed` keys (Batch::Emptied). REQUIRES:
  /// none of those removals is taken back.
  void emptied(keys::Range range, size_t removed) {
    emptied_.push_back({std::move(range.begin), std::move(range.end), removed});
  }

  /// Takes back what was put or removed.
  void leave(std::string_view key) {
    if (auto found = writes_.find(key); found != writes_.end()) writes_.erase(found);
  }
  bool writes(std::string_view key) const { return writes_.find(key) != writes_.end(); }
  /// The keys of a range that were put or removed, in order; no value: removed.
  std::vector<std::pair<std::string, std::optional<std::string>>> written(const keys::Range& range) const {
    const auto begin = writes_.lower_bound(range.begin);
    return {begin, begin == writes_.end() ? begin : writes_.lower_bound(range.end)};
  }
  /// Calls `visit` with each key of a range that was put or removed, in order.
  template <class Visit>
  void visit_written(const keys::Range& range, const Visit& visit) const {
    for (auto at = writes_.lower_bound(range.begin); at != writes_.end() && at->first < range.end; ++at)
      visit(std::string_view(at->first));
  }
  /// Quotas::account was done. Nothing that counts may be changed afterwards.
  bool accounted = false;
  /// Something gets another directory, or a name in one more.
  bool moved = false;
  /// The session that changes this; 0: nobody who has one.
  uint64_t by = 0;

  size_t size() const { return writes_.size(); }
  bool empty() const { return writes_.empty(); }

  /// The batch of everything so far; the transaction is empty afterwards.
  Batch take() {
    Batch batch;
    batch.emptied = std::exchange(emptied_, {});
    batch.writes.reserve(writes_.size());
    while (!writes_.empty()) {
      auto node = writes_.extract(writes_.begin());
      batch.writes.push_back({std::move(node.key()), std::move(node.mapped())});
    }
    return batch;
  }

 private:
  const ReadView& store_;
  Reader reader_;
  std::map<std::string, std::optional<std::string>, std::less<>> writes_;
  std::vector<Batch::Emptied> emptied_;
};

}  // namespace kintsugi::metaserver
