#include "metaserver/namespace/changes.h"

#include "common/proto/store.pb.h"

namespace kintsugi::metaserver {
namespace {

std::string key_of(const proto::Change& change) {
  return keys::change(change.session(),
                      change.generation() % proto::kGenerations * proto::kMaxChangesUnderWay +
                          change.number() % proto::kMaxChangesUnderWay);
}

}  // namespace

std::optional<InodeId> carried_out(const Reader& reader, const proto::Change& change) {
  if (change.session() == 0) return std::nullopt;
  const auto stored = reader.get_message<proto::StoredChange>(key_of(change));
  if (!stored || stored->number() != change.number() || stored->generation() != change.generation())
    return std::nullopt;
  return InodeId{stored->inode()};
}

bool is_over(const Reader& reader, const proto::Change& change) {
  if (change.session() == 0) return false;
  const auto stored = reader.get_message<proto::StoredChange>(key_of(change));
  if (!stored || stored->generation() < change.generation()) return false;
  return stored->generation() > change.generation() || stored->number() >= change.number();
}

void note_change(Transaction& transaction, const proto::Change& change, InodeId result) {
  if (change.session() == 0) return;
  transaction.by = change.session();
  proto::StoredChange stored;
  stored.set_number(change.number());
  stored.set_inode(result.value);
  stored.set_generation(change.generation());
  transaction.put_message(key_of(change), stored);
}

namespace {

/// Behind the changes and the note of the session itself.
std::string reservation_key(uint64_t session, uint64_t slot) {
  return keys::change(session, proto::kGenerations * proto::kMaxChangesUnderWay + 1 + slot);
}

std::string loss_key(uint64_t session) {
  return reservation_key(session, kMaxReservations);
}
std::string end_key(uint64_t session) {
  return reservation_key(session, kMaxReservations + 1);
}

}  // namespace

void note_session(Transaction& transaction, uint64_t session) {
  transaction.put_message(keys::change(session, proto::kGenerations * proto::kMaxChangesUnderWay),
                          proto::StoredChange{});
  transaction.remove(end_key(session));
}

void note_ended(Transaction& transaction, uint64_t session) {
  transaction.remove(keys::change(session, proto::kGenerations * proto::kMaxChangesUnderWay));
  transaction.remove(loss_key(session));
  transaction.put_message(end_key(session), proto::StoredChange{});
}

bool noted_end(const Reader& reader, uint64_t session) {
  return reader.get(end_key(session)).has_value();
}

void note_loss(Transaction& transaction, uint64_t session, bool lost) {
  if (lost) {
    transaction.put_message(loss_key(session), proto::StoredChange{});
  } else {
    transaction.remove(loss_key(session));
  }
}

bool noted_loss(const Reader& reader, uint64_t session) {
  return reader.get(loss_key(session)).has_value();
}

std::vector<ReservedInodes> reserved_for(const Reader& reader, uint64_t session) {
  std::vector<ReservedInodes> found;
  for (uint64_t slot = 0; slot < kMaxReservations; ++slot) {
    const auto stored = reader.get_message<proto::StoredReservedInodes>(reservation_key(session, slot));
    if (stored) found.push_back({stored->first(), stored->count()});
  }
  return found;
}

void note_reserved(Transaction& transaction, uint64_t session, const ReservedInodes& ids) {
  uint64_t oldest = UINT64_MAX, place = 0;
  for (uint64_t slot = 0; slot < kMaxReservations; ++slot) {
    const auto stored = transaction.get_message<proto::StoredReservedInodes>(reservation_key(session, slot));
    const uint64_t first = stored ? stored->first() : 0;
    if (first >= oldest) continue;
    oldest = first;
    place = slot;
  }
  proto::StoredReservedInodes stored;
  stored.set_first(ids.first);
  stored.set_count(ids.count);
  transaction.put_message(reservation_key(session, place), stored);
}

void forget_changes(Transaction& transaction, uint64_t session) {
  transaction.scan(keys::all(keys::Kind::kChange, session), [&](std::string_view key, std::string_view) {
    transaction.remove(std::string(key));
    return true;
  });
}

}  // namespace kintsugi::metaserver
