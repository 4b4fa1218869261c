#include "metaserver/namespace/requests.h"

namespace kintsugi::metaserver {
namespace {

std::string key_of(const proto::Change& change) {
  // Sessions are random numbers, and those of one count from 1 on: the slots of one client follow each other.
  return keys::request((change.session() + change.number()) % kRequestSlots);
}

}  // namespace

bool request_carried_out(const Reader& reader, const proto::Change& change) {
  if (change.session() == 0) return false;
  const auto stored = reader.get_message<proto::Change>(key_of(change));
  return stored && stored->session() == change.session() && stored->number() == change.number();
}

void note_request(Transaction& transaction, const proto::Change& change) {
  if (change.session() != 0) transaction.put_message(key_of(change), change);
}

}  // namespace kintsugi::metaserver
