#include "metaserver/chunks/quarantine.h"

#include <algorithm>

#include "common/log/log.h"

namespace kintsugi::metaserver {
namespace {

constexpr std::string_view kRunningTime = "running seconds";

ServerId server_of(std::string_view key) {
  return ServerId{keys::first_id(key)};
}

}  // namespace

void Quarantine::load(const Reader& reader) {
  const auto stored = reader.get_message<proto::StoredCounter>(keys::counter(kRunningTime));
  ran_before_ = stored ? stored->next() : 0;
  reader.scan(keys::all(keys::Kind::kQuarantine),
              [&](std::string_view, std::string_view) { return ++count_ > 0; });
}

uint64_t Quarantine::running_seconds() const {
  return ran_before_ + static_cast<uint64_t>((clock_.now() - started_) / 1s);
}

uint64_t Quarantine::retention_seconds() const {
  return static_cast<uint64_t>(options_.quarantine_retention / 1s);
}

bool Quarantine::add(Transaction& transaction, ServerId server, ChunkId chunk, bool foreign) {
  std::string key = keys::quarantine(server, chunk);
  if (transaction.get(key)) return false;
  proto::StoredQuarantine record;
  record.set_since_seconds(running_seconds());
  record.set_foreign(foreign);
  transaction.put_message(std::move(key), record);
  ++count_;
  return true;
}

bool Quarantine::forget(Transaction& transaction, ServerId server) {
  size_t seen = 0;
  transaction.scan(keys::all(keys::Kind::kQuarantine, server.value),
                   [&](std::string_view key, std::string_view) {
                     transaction.remove(std::string(key));
                     --count_;
                     return ++seen < kKeysAStep;
                   });
  return seen == kKeysAStep;
}

bool Quarantine::step(Transaction& transaction, std::vector<ServerId>& servers) {
  keys::Range range = keys::all(keys::Kind::kQuarantine);
  if (next_key_.empty()) {
    proto::StoredCounter time;
    time.set_next(running_seconds());
    transaction.put_message(keys::counter(kRunningTime), time);
  } else {
    range.begin = next_key_;
  }
  const uint64_t now = running_seconds();
  size_t seen = 0, expired = 0;
  next_key_.clear();
  transaction.scan(range, [&](std::string_view key, std::string_view value) {
    if (seen++ == kKeysAStep) {
      next_key_ = key;
      return false;
    }
    if (Reader::parse<proto::StoredQuarantine>(value).since_seconds() + retention_seconds() > now)
      return true;
    transaction.remove(std::string(key));
    transaction.put(keys::garbage(server_of(key), keys::chunk_of(key)), "");
    servers.push_back(server_of(key));
    ++expired;
    --count_;
    return true;
  });
  if (expired > 0)
    log::warning("{} chunks were in quarantine for the whole retention: they are deleted now", expired);
  return !next_key_.empty();
}

proto::ListQuarantineResponse Quarantine::list(const Reader& reader,
                                               const proto::ListQuarantineRequest& request) const {
  const uint32_t limit = request.limit() == 0 ? kMaxListed : std::min(request.limit(), kMaxListed);
  keys::Range range = keys::all(keys::Kind::kQuarantine);
  if (request.has_after()) {
    const proto::QuarantinedChunk& after = request.after();
    const ChunkId chunk{StripeId{after.stripe_id()}, std::min(after.index(), keys::kMaxIndex)};
    range.begin = keys::quarantine(ServerId{after.server_id()}, chunk).append(1, '\0');
  }
  const uint64_t now = running_seconds();
  proto::ListQuarantineResponse response;
  reader.scan(range, [&](std::string_view key, std::string_view value) {
    if (response.chunks_size() == static_cast<int>(limit)) {
      response.set_more(true);
      return false;
    }
    const auto record = Reader::parse<proto::StoredQuarantine>(value);
    const ChunkId chunk = keys::chunk_of(key);
    proto::QuarantinedChunk* listed = response.add_chunks();
    listed->set_server_id(server_of(key).value);
    listed->set_stripe_id(chunk.stripe.value);
    listed->set_index(chunk.index);
    listed->set_foreign(record.foreign());
    const uint64_t ends = record.since_seconds() + retention_seconds();
    listed->set_seconds_left(ends > now ? ends - now : 0);
    return true;
  });
  return response;
}

uint64_t Quarantine::change(Transaction& transaction, proto::ChangeQuarantineRequest::Change change,
                            StripeId stripe, std::string& from, std::vector<ServerId>& servers) {
  keys::Range range = keys::all(keys::Kind::kQuarantine);
  if (!from.empty()) range.begin = from;
  from.clear();
  uint64_t changed = 0;
  size_t seen = 0;
  transaction.scan(range, [&](std::string_view key, std::string_view value) {
    if (seen++ == kKeysAStep) {
      from = key;
      return false;
    }
    const ChunkId chunk = keys::chunk_of(key);
    if (stripe && chunk.stripe != stripe) return true;
    ++changed;
    if (change == proto::ChangeQuarantineRequest::EMPTY) {
      transaction.remove(std::string(key));
      transaction.put(keys::garbage(server_of(key), chunk), "");
      servers.push_back(server_of(key));
      --count_;
    } else {
      auto record = Reader::parse<proto::StoredQuarantine>(value);
      record.set_since_seconds(running_seconds());
      transaction.put_message(std::string(key), record);
    }
    return true;
  });
  return changed;
}

}  // namespace kintsugi::metaserver
