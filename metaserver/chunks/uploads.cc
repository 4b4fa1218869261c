#include "metaserver/chunks/uploads.h"

#include <algorithm>
#include <set>
#include <span>

#include "common/log/log.h"
#include "metaserver/chunks/sealed_stripe.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kStripesAStep = 32;
constexpr int kIdBits = 49;

}  // namespace

void Uploads::load(const Reader& reader) {
  reader.scan(keys::all(keys::Kind::kUpload), [&](std::string_view key, std::string_view value) {
    Upload& upload = uploads_[UploadId{keys::first_id(key)}];
    upload.last_use = clock_.now();
    upload.aborted = Reader::parse<proto::StoredUpload>(value).aborted();
    return true;
  });
}

UploadId Uploads::new_id(runtime::Random& random) const {
  while (true) {
    UploadId id;
    random.fill(std::as_writable_bytes(std::span(&id.value, 1)));
    id.value >>= 64 - kIdBits;
    if (id && !uploads_.contains(id) && !ended_.contains(id)) return id;
  }
}

Status Uploads::use(UploadId id) {
  // Late repetitions of a request must not begin the upload anew.
  if (ended_.contains(id)) return {Code::kNotFound, fmt::format("upload {} has ended", id)};
  auto found = uploads_.find(id);
  if (found == uploads_.end()) {
    if (uploads_.size() >= kMaxUploads) return {Code::kLimitExceeded, "too many files are being written"};
    found = uploads_.emplace(id, Upload{}).first;
  }
  if (found->second.aborted) return {Code::kNotFound, fmt::format("upload {} was aborted", id)};
  found->second.last_use = clock_.now();
  return {};
}

Result<proto::StripeTicket> Uploads::open(UploadId upload, StripeId stripe,
                                          std::string_view signed_ticket) const {
  KINTSUGI_ASSIGN(proto::StripeTicket ticket, allocations_.open(upload, stripe, signed_ticket));
  if (auto found = uploads_.find(upload); found != uploads_.end() && found->second.aborted) {
    return Status{Code::kNotFound, fmt::format("upload {} was aborted", upload)};
  }
  if (ended_.contains(upload)) return Status{Code::kNotFound, fmt::format("upload {} has ended", upload)};
  // A good ticket is not enough: its wall clock may run behind, and what is not protected may be collected.
  if (!allocations_.protects(stripe))
    return Status{Code::kNotFound, fmt::format("stripe {} was given up", stripe)};
  return ticket;
}

Status Uploads::seal(Transaction& transaction, UploadId upload, const proto::SealedStripe& sealed,
                     std::vector<ChunkId>& missing) {
  const StripeId id{sealed.stripe().stripe_id()};
  if (!upload || !id) return {Code::kInvalidArgument, "a stripe belongs to an upload"};
  // The request is repeated: the answer to the first one was lost. Whether its stripe is still attached to the upload
  // is for commit() to see.
  if (transaction.get(keys::stripe(id))) return {};
  KINTSUGI_TRY(store_stripe(transaction, upload, sealed, missing));
  transaction.put(keys::upload_stripe(upload, id), "");
  if (!transaction.get(keys::upload(upload))) {
    proto::StoredUpload record;
    record.set_begun_ns(clock_.wall_now().time_since_epoch().count());
    transaction.put_message(keys::upload(upload), record);
  }
  return {};
}

Status Uploads::store_stripe(Transaction& transaction, UploadId upload, const proto::SealedStripe& sealed,
                             std::vector<ChunkId>& missing) {
  const StripeId id{sealed.stripe().stripe_id()};
  KINTSUGI_ASSIGN(const proto::StripeTicket ticket, open(upload, id, sealed.ticket()));
  KINTSUGI_ASSIGN(proto::StoredStripe stripe, check_sealed(sealed.stripe(), ticket));
  const auto is_removed = [&](const proto::ChunkPlacement& chunk) {
    return chunk.server_id() != 0 && servers_.find(ServerId{chunk.server_id()}) == nullptr;
  };
  if (std::ranges::any_of(sealed.stripe().chunks(), is_removed)) {
    // Nobody would ever look for a chunk on a server that was removed while it was written.
    proto::Stripe left = sealed.stripe();
    for (proto::ChunkPlacement& chunk : *left.mutable_chunks())
      if (is_removed(chunk)) chunk.set_server_id(0);
    KINTSUGI_ASSIGN(stripe, check_sealed(left, ticket));
  }
  for (uint32_t i = 0; i < static_cast<uint32_t>(stripe.chunks_size()); ++i) {
    const ServerId server{stripe.chunks(static_cast<int>(i)).server_id()};
    // A block report may have found the chunk while nothing protected it: its deletion may be on its way. Or the stripe
    // was freed, after a commit of which the repetition comes now: to another process of the metaserver.
    if (server && (Garbage::pending(transaction.store(), server, {id, i}) ||
                   garbage_.deleted_as_orphan(server, {id, i}))) {
      return {Code::kConflict, fmt::format("stripe {} was given up", id)};
    }
    if (!server && stripe.chunks(static_cast<int>(i)).length() > 0) missing.push_back({id, i});
  }
  KINTSUGI_TRY(use(upload));
  // From here on the record names the chunks: the index of add_stripe() makes block reports expect them, and their
  // garbage keys, if any ever come, are judged against it.
  add_stripe(transaction, id, stripe);
  return {};
}

std::vector<StripeId> Uploads::attached_before(const Transaction& transaction, UploadId upload) {
  std::vector<StripeId> attached;
  // The record comes with the first stripe, so that most small files, which bring theirs with the commit, cost no scan.
  if (!transaction.get(keys::upload(upload))) return attached;
  transaction.scan(keys::all(keys::Kind::kUploadStripe, upload.value),
                   [&](std::string_view key, std::string_view) {
                     attached.push_back(keys::stripe_of_upload(key));
                     return true;
                   });
  return attached;
}

Result<std::vector<StripeId>> Uploads::gather(
    Transaction& transaction, UploadId upload,
    const google::protobuf::RepeatedPtrField<proto::SealedStripe>& sealed, std::vector<ChunkId>& missing) {
  std::vector<StripeId> attached;
  if (upload) {
    KINTSUGI_TRY(use(upload));
    attached = attached_before(transaction, upload);
  }
  for (const proto::SealedStripe& stripe : sealed) {
    const StripeId id{stripe.stripe().stripe_id()};
    if (!upload || !id) return Status{Code::kInvalidArgument, "a stripe belongs to an upload"};
    // A stripe that was stored before is the upload's only if it is attached: it may be another file's by now.
    if (transaction.get(keys::stripe(id))) continue;
    KINTSUGI_TRY(store_stripe(transaction, upload, stripe, missing));
    attached.push_back(id);
  }
  std::sort(attached.begin(), attached.end());
  attached.erase(std::unique(attached.begin(), attached.end()), attached.end());
  return attached;
}

void Uploads::free_unnamed(Transaction& transaction, StripeId id, FreedStripes& freed) {
  const auto stripe = transaction.get_message<proto::StoredStripe>(keys::stripe(id));
  if (stripe && stripe->references() == 0) free_stripe(transaction, id, freed);
}

Status Uploads::check_extents(const Transaction& transaction, const Extents& extents, uint64_t size,
                              const std::vector<StripeId>& gathered, bool holes) {
  if (extents.size() > kMaxExtents) {
    return {Code::kLimitExceeded,
            fmt::format("{} extents: at most {} are written at once", extents.size(), kMaxExtents)};
  }
  std::map<StripeId, uint64_t> lengths;
  uint64_t end = 0;
  for (const proto::Extent& extent : extents) {
    const StripeId id{extent.stripe_id()};
    if (extent.file_offset() < end) return invalid(fmt::format("the extents overlap at byte {}", end));
    if (extent.length() == 0 || extent.file_offset() > size || extent.length() > size - extent.file_offset())
      return invalid(fmt::format("the extent at byte {} ends beyond byte {}, or holds none",
                                 extent.file_offset(), size));
    end = extent.file_offset() + extent.length();
    if (!id && holes) continue;
    if (!std::binary_search(gathered.begin(), gathered.end(), id))
      return {Code::kNotFound, fmt::format("stripe {} is not one of this upload", id)};
    if (!lengths.contains(id)) {
      const auto stripe = transaction.get_message<proto::StoredStripe>(keys::stripe(id));
      // While a write is carried out in steps others may remove its first part, with all that named the stripe.
      if (!stripe) return {Code::kConflict, fmt::format("stripe {} was freed meanwhile", id)};
      lengths[id] = stripe->length();
    }
    const uint64_t length = lengths[id];
    if (extent.stripe_offset() > length || extent.length() > length - extent.stripe_offset())
      return invalid(fmt::format("an extent names bytes that stripe {} does not have", id));
  }
  return {};
}

void Uploads::release(Transaction& transaction, UploadId upload, const Extents& extents,
                      const std::vector<StripeId>& gathered, FreedStripes& freed) {
  std::set<StripeId> named;
  for (const proto::Extent& extent : extents)
    named.insert(StripeId{extent.stripe_id()});
  for (StripeId id : gathered) {
    // In one batch the stripe leaves the upload and becomes the file's, or garbage: expire_step() can free neither.
    if (!named.contains(id)) free_unnamed(transaction, id, freed);
  }
  if (!transaction.get(keys::upload(upload))) return;
  for (StripeId id : attached_before(transaction, upload))
    transaction.remove(keys::upload_stripe(upload, id));
  transaction.remove(keys::upload(upload));
}

void Uploads::ended(UploadId id) {
  if (uploads_.erase(id) == 0) return;
  allocations_.take(id);
  ended_.insert(id);
  ended_order_.push_back(id);
  if (ended_order_.size() <= kMaxEnded) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

void Uploads::abort(Transaction& transaction, UploadId id, std::vector<ServerId>& servers) {
  // An upload that nobody knows may still have tickets of the process before this one.
  const bool unknown = !uploads_.contains(id);
  if (unknown && (allocations_.settled() || !id || uploads_.size() >= kMaxUploads)) return;
  Upload& upload = uploads_[id];
  if (upload.aborted) return;
  upload.aborted = true;
  upload.last_use = clock_.now();
  for (const auto& [stripe, holders] : allocations_.take(id)) {
    // A sealed stripe is freed with its record, by expire_step(): it alone knows which servers hold chunks.
    if (transaction.get(keys::stripe(stripe))) continue;
    // Neither a record nor, from now on, an allocation names these chunks: seal() refuses an aborted upload.
    for (uint32_t i = 0; i < holders.size(); ++i) {
      if (!holders[i]) continue;
      transaction.put(keys::garbage(holders[i], {stripe, i}), "");
      servers.push_back(holders[i]);
    }
  }
  // Durable until its tickets have expired, so that no stripe of it is accepted after a restart either.
  proto::StoredUpload record;
  record.set_aborted(true);
  record.set_begun_ns(clock_.wall_now().time_since_epoch().count());
  transaction.put_message(keys::upload(id), record);
}

bool Uploads::free_some(Transaction& transaction, UploadId upload, FreedStripes& freed) const {
  size_t seen = 0;
  bool more = false;
  transaction.scan(keys::all(keys::Kind::kUploadStripe, upload.value),
                   [&](std::string_view key, std::string_view) {
                     if (seen++ == kStripesAStep) {
                       more = true;
                       return false;
                     }
                     transaction.remove(std::string(key));
                     free_unnamed(transaction, keys::stripe_of_upload(key), freed);
                     return true;
                   });
  return more;
}

bool Uploads::expire_step(Transaction& transaction, FreedStripes& freed, std::vector<ServerId>& servers) {
  allocations_.forget_expired();
  const TimePoint now = clock_.now();
  for (auto at = uploads_.lower_bound(next_to_expire_); at != uploads_.end(); ++at) {
    const UploadId id = at->first;
    Upload& upload = at->second;
    next_to_expire_ = id;
    if (!upload.aborted && now - upload.last_use > options_.upload_idle) {
      log::info("upload {}: no word from its client for {:.0f} s, it is given up", id,
                to_seconds(now - upload.last_use));
      abort(transaction, id, servers);
      return true;
    }
    if (!upload.aborted) continue;
    // Every ticket of the upload is older than the moment in which it was aborted.
    const bool forgettable = now - upload.last_use > options_.upload_ttl;
    if (!forgettable && upload.drained) continue;
    // Stripes of a file that was committed are no longer attached to the upload: they are safe from this.
    if (free_some(transaction, id, freed)) return true;
    upload.drained = true;
    if (forgettable) {
      transaction.remove(keys::upload(id));
      ended(id);
    }
    return true;
  }
  next_to_expire_ = {};
  return false;
}

void Uploads::stood_still(Duration time) {
  for (auto& [id, upload] : uploads_)
    upload.last_use += time;
}

}  // namespace kintsugi::metaserver
