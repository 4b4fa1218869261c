#include "metaserver/cluster/uploads.h"

#include <algorithm>

#include "common/log/log.h"
#include "metaserver/cluster/garbage.h"
#include "metaserver/cluster/sealed_stripe.h"
#include "metaserver/cluster/ticket.h"

namespace kintsugi::metaserver {

void Uploads::load(const Reader& reader) {
  reader.scan(keys::all(keys::Kind::kUpload), [&](std::string_view key, std::string_view value) {
    Upload& upload = uploads_[UploadId{keys::first_id(key)}];
    upload.last_use = clock_.now();
    upload.aborted = Reader::parse<proto::StoredUpload>(value).aborted();
    return true;
  });
}

Status Uploads::use(UploadId id) {
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

void Uploads::forget_old_allocations() {
  while (!allocations_.empty() && allocations_.begin()->second.expiry < clock_.now()) {
    const auto& [stripe, allocation] = *allocations_.begin();
    if (auto upload = uploads_.find(allocation.upload); upload != uploads_.end()) {
      std::erase(upload->second.allocated, stripe);
    }
    allocations_.erase(allocations_.begin());
  }
}

Result<std::string> Uploads::allocate(UploadId upload, StripeId stripe, const std::string& policy,
                                      const std::vector<ServerId>& servers) {
  forget_old_allocations();
  if (allocations_.size() >= kMaxAllocations) {
    return Status{Code::kLimitExceeded, "too many stripes are being written"};
  }
  const TimePoint expiry = clock_.now() + options_.upload_ttl;
  allocations_[stripe] = {upload, servers, expiry};
  uploads_[upload].allocated.push_back(stripe);

  proto::StripeTicket ticket;
  ticket.set_stripe_id(stripe.value);
  ticket.set_upload_id(upload.value);
  ticket.set_policy(policy);
  ticket.set_max_chunk_bytes(options_.chunk_bytes);
  for (ServerId server : servers)
    ticket.add_servers(server.value);
  ticket.set_expiry_ns((clock_.wall_now() + options_.upload_ttl).time_since_epoch().count());
  return sign_ticket(secret_, ticket);
}

Result<proto::StripeTicket> Uploads::open(UploadId upload, StripeId stripe,
                                          std::string_view signed_ticket) const {
  KINTSUGI_ASSIGN(proto::StripeTicket ticket, open_ticket(secret_, signed_ticket, clock_.wall_now()));
  if (ticket.upload_id() != upload.value || ticket.stripe_id() != stripe.value) {
    return Status{Code::kPermissionDenied,
                  fmt::format("the ticket is not of stripe {} of upload {}", stripe, upload)};
  }
  if (auto found = uploads_.find(upload); found != uploads_.end() && found->second.aborted) {
    return Status{Code::kNotFound, fmt::format("upload {} was aborted", upload)};
  }
  if (ended_.contains(upload)) return Status{Code::kNotFound, fmt::format("upload {} has ended", upload)};
  if (!protects(stripe)) return Status{Code::kNotFound, fmt::format("stripe {} was given up", stripe)};
  return ticket;
}

std::string Uploads::reallocate(proto::StripeTicket ticket, uint32_t index, ServerId server) {
  ticket.set_servers(static_cast<int>(index), server.value);
  auto found = allocations_.find(StripeId{ticket.stripe_id()});
  if (found != allocations_.end()) found->second.servers[index] = server;
  return sign_ticket(secret_, ticket);
}

bool Uploads::protects(StripeId stripe) const {
  auto found = allocations_.find(stripe);
  if (found != allocations_.end() && found->second.expiry >= clock_.now()) return true;
  return !settled();
}

Status Uploads::seal(Transaction& transaction, UploadId upload, const proto::SealedStripe& sealed,
                     std::vector<ChunkId>& missing) {
  const StripeId id{sealed.stripe().stripe_id()};
  if (!upload || !id) return {Code::kInvalidArgument, "a stripe belongs to an upload"};
  if (transaction.get(keys::stripe(id))) return {};  // repeated: the answer to the first try was lost
  KINTSUGI_ASSIGN(const proto::StripeTicket ticket, open(upload, id, sealed.ticket()));
  KINTSUGI_ASSIGN(const proto::StoredStripe stripe, check_sealed(sealed.stripe(), ticket));
  for (uint32_t i = 0; i < static_cast<uint32_t>(stripe.chunks_size()); ++i) {
    const ServerId server{stripe.chunks(static_cast<int>(i)).server_id()};
    if (server && Garbage::pending(transaction.store(), server, {id, i})) {
      return {Code::kConflict, fmt::format("stripe {} was given up", id)};
    }
    if (!server && stripe.chunks(static_cast<int>(i)).length() > 0) missing.push_back({id, i});
  }
  KINTSUGI_TRY(use(upload));
  add_stripe(transaction, id, stripe);
  transaction.put(keys::upload_stripe(upload, id), "");
  if (!transaction.get(keys::upload(upload))) {
    proto::StoredUpload record;
    record.set_begun_ns(clock_.wall_now().time_since_epoch().count());
    transaction.put_message(keys::upload(upload), record);
  }
  return {};
}

Status Uploads::check_extents(const Transaction& transaction, const proto::CommitFileRequest& request,
                              const std::vector<StripeId>& attached, Committed& committed) const {
  const auto refuse = [](std::string why) { return Status{Code::kInvalidArgument, std::move(why)}; };
  if (request.extents_size() > kMaxExtents) {
    return {Code::kLimitExceeded,
            fmt::format("{} extents: a file has at most {}", request.extents_size(), kMaxExtents)};
  }
  std::map<StripeId, uint64_t> lengths;
  uint64_t size = 0;
  for (const proto::Extent& extent : request.extents()) {
    const StripeId id{extent.stripe_id()};
    if (extent.file_offset() != size) return refuse(fmt::format("the extents have a gap at byte {}", size));
    if (!std::binary_search(attached.begin(), attached.end(), id)) {
      return {Code::kNotFound, fmt::format("stripe {} is not one of upload {}", id, request.upload_id())};
    }
    if (!lengths.contains(id)) {
      const auto stripe = transaction.get_message<proto::StoredStripe>(keys::stripe(id));
      KINTSUGI_ASSERT(stripe);
      lengths[id] = stripe->length();
      committed.stored_bytes += stored_bytes(*stripe);
      if (committed.policy.empty()) committed.policy = stripe->policy();
    }
    const uint64_t length = lengths[id];
    if (extent.length() == 0 || extent.stripe_offset() > length ||
        extent.length() > length - extent.stripe_offset()) {
      return refuse(fmt::format("an extent names bytes that stripe {} does not have", id));
    }
    size += extent.length();
  }
  if (size != request.size())
    return refuse(fmt::format("the extents hold {} bytes, the file {}", size, request.size()));
  committed.extents.mutable_extents()->CopyFrom(request.extents());
  return {};
}

Result<Uploads::Committed> Uploads::commit(Transaction& transaction, const proto::CommitFileRequest& request,
                                           std::vector<ChunkId>& missing, FreedStripes& freed) {
  const UploadId upload{request.upload_id()};
  Committed committed;
  std::vector<StripeId> attached;
  if (upload) {
    KINTSUGI_TRY(use(upload));
    transaction.scan(keys::all(keys::Kind::kUploadStripe, upload.value),
                     [&](std::string_view key, std::string_view) {
                       attached.push_back(keys::stripe_of_upload(key));
                       return true;
                     });
  }
  for (const proto::SealedStripe& sealed : request.sealed()) {
    const StripeId id{sealed.stripe().stripe_id()};
    KINTSUGI_TRY(seal(transaction, upload, sealed, missing));
    if (transaction.get(keys::upload_stripe(upload, id))) attached.push_back(id);
  }
  std::sort(attached.begin(), attached.end());
  attached.erase(std::unique(attached.begin(), attached.end()), attached.end());
  KINTSUGI_TRY(check_extents(transaction, request, attached, committed));

  std::set<StripeId> named;
  for (const proto::Extent& extent : request.extents())
    named.insert(StripeId{extent.stripe_id()});
  for (StripeId id : attached) {
    transaction.remove(keys::upload_stripe(upload, id));
    if (!named.contains(id)) free_stripe(transaction, id, freed);
  }
  if (transaction.get(keys::upload(upload))) transaction.remove(keys::upload(upload));
  return committed;
}

void Uploads::ended(UploadId id) {
  auto found = uploads_.find(id);
  if (found == uploads_.end()) return;
  for (StripeId stripe : found->second.allocated)
    allocations_.erase(stripe);
  uploads_.erase(found);
  ended_.insert(id);
  ended_order_.push_back(id);
  if (ended_order_.size() <= kMaxEnded) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

}  // namespace kintsugi::metaserver
