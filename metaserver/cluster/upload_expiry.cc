// How uploads end without a commit.
#include "common/log/log.h"
#include "metaserver/cluster/uploads.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kStripesAStep = 32;

}  // namespace

void Uploads::abort(Transaction& transaction, UploadId id, std::vector<ServerId>& servers) {
  auto found = uploads_.find(id);
  // An upload that nobody knows may still have tickets of the process before this one.
  if (found == uploads_.end() && (settled() || !id || uploads_.size() >= kMaxUploads)) return;
  Upload& upload = uploads_[id];
  if (upload.aborted) return;
  upload.aborted = true;
  upload.last_use = clock_.now();
  for (StripeId stripe : std::exchange(upload.allocated, {})) {
    const Allocation allocation = allocations_[stripe];
    allocations_.erase(stripe);
    if (transaction.get(keys::stripe(stripe))) continue;  // sealed: freed with its record
    for (uint32_t i = 0; i < allocation.servers.size(); ++i) {
      transaction.put(keys::garbage(allocation.servers[i], {stripe, i}), "");
      servers.push_back(allocation.servers[i]);
    }
  }
  // Durable until its tickets have expired, so that no stripe of it is accepted after a restart either.
  proto::StoredUpload record;
  record.set_aborted(true);
  record.set_begun_ns(clock_.wall_now().time_since_epoch().count());
  transaction.put_message(keys::upload(id), record);
}

bool Uploads::expire_step(Transaction& transaction, FreedStripes& freed) {
  forget_old_allocations();
  const TimePoint now = clock_.now();
  for (auto at = uploads_.lower_bound(next_to_expire_); at != uploads_.end(); ++at) {
    const UploadId id = at->first;
    Upload& upload = at->second;
    next_to_expire_ = id;
    const bool idle = now - upload.last_use > options_.upload_ttl;
    if (!idle && (!upload.aborted || upload.drained)) continue;
    size_t seen = 0;
    bool more = false;
    transaction.scan(keys::all(keys::Kind::kUploadStripe, id.value),
                     [&](std::string_view key, std::string_view) {
                       if (seen++ == kStripesAStep) {
                         more = true;
                         return false;
                       }
                       transaction.remove(std::string(key));
                       free_stripe(transaction, keys::stripe_of_upload(key), freed);
                       return true;
                     });
    if (more) return true;
    upload.drained = true;
    if (idle) {
      if (!upload.aborted) log::info("upload {} was idle for too long: given up", id);
      transaction.remove(keys::upload(id));
      ended(id);
    }
    return true;
  }
  next_to_expire_ = {};
  return false;
}

}  // namespace kintsugi::metaserver
