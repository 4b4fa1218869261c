#include "metaserver/namespace/changes.h"

#include "common/proto/store.pb.h"

namespace kintsugi::metaserver {
namespace {

std::string key_of(const proto::Change& change) {
  return keys::change(change.session(), change.generation() % kGenerations * kMaxChangesUnderWay +
                                            change.number() % kMaxChangesUnderWay);
}

}  // namespace

std::optional<InodeId> carried_out(const Reader& reader, const proto::Change& change) {
  if (change.session() == 0) return std::nullopt;
  const auto stored = reader.get_message<proto::StoredChange>(key_of(change));
  if (!stored || stored->number() != change.number() || stored->generation() != change.generation())
    return std::nullopt;
  return InodeId{stored->inode()};
}

void note_change(Transaction& transaction, const proto::Change& change, InodeId result) {
  if (change.session() == 0) return;
  proto::StoredChange stored;
  stored.set_number(change.number());
  stored.set_inode(result.value);
  stored.set_generation(change.generation());
  transaction.put_message(key_of(change), stored);
}

void note_session(Transaction& transaction, uint64_t session) {
  transaction.put_message(keys::change(session, kGenerations * kMaxChangesUnderWay), proto::StoredChange{});
}

void forget_changes(Transaction& transaction, uint64_t session) {
  transaction.scan(keys::all(keys::Kind::kChange, session), [&](std::string_view key, std::string_view) {
    transaction.remove(std::string(key));
    return true;
  });
}

}  // namespace kintsugi::metaserver
