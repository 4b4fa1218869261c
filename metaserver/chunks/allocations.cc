#include "metaserver/chunks/allocations.h"

#include <utility>

#include "metaserver/chunks/ticket.h"

namespace kintsugi::metaserver {

void Allocations::forget_expired() {
  while (!allocations_.empty() && allocations_.begin()->second.expiry < clock_.now()) {
    const auto& [stripe, allocation] = *allocations_.begin();
    if (const auto upload = stripes_of_.find(allocation.upload); upload != stripes_of_.end()) {
      std::erase(upload->second, stripe);
      if (upload->second.empty()) stripes_of_.erase(upload);
    }
    allocations_.erase(allocations_.begin());
  }
}

Result<std::string> Allocations::add(UploadId upload, StripeId stripe, const std::string& policy,
                                     const std::vector<ServerId>& servers) {
  forget_expired();
  if (allocations_.size() >= kMaxAllocations)
    return Status{Code::kLimitExceeded, "too many stripes are being written"};
  if (!first_) first_ = stripe;
  last_ = stripe;
  allocations_[stripe] = {upload, servers, clock_.now() + options_.upload_ttl};
  stripes_of_[upload].push_back(stripe);

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

Result<proto::StripeTicket> Allocations::open(UploadId upload, StripeId stripe,
                                              std::string_view signed_ticket) const {
  KINTSUGI_ASSIGN(proto::StripeTicket ticket, open_ticket(secret_, signed_ticket, clock_.wall_now()));
  if (ticket.upload_id() != upload.value || ticket.stripe_id() != stripe.value) {
    return Status{Code::kPermissionDenied,
                  fmt::format("the ticket is not of stripe {} of upload {}", stripe, upload)};
  }
  return ticket;
}

std::string Allocations::reallocate(proto::StripeTicket ticket, uint32_t index, ServerId server) {
  ticket.set_servers(static_cast<int>(index), server.value);
  const auto found = allocations_.find(StripeId{ticket.stripe_id()});
  if (found != allocations_.end()) found->second.servers[index] = server;
  return sign_ticket(secret_, ticket);
}

std::optional<TimePoint> Allocations::allocated_at(StripeId stripe) const {
  const auto found = allocations_.find(stripe);
  if (found == allocations_.end()) return std::nullopt;
  return found->second.expiry - options_.upload_ttl;
}

bool Allocations::protects(StripeId stripe) const {
  const auto found = allocations_.find(stripe);
  if (found != allocations_.end() && found->second.expiry >= clock_.now()) return true;
  if (first_ && first_ <= stripe && stripe <= last_) return false;
  // The process before this one may have allocated it, with a ticket that is still good.
  return !settled();
}

std::vector<std::pair<StripeId, Allocations::Servers>> Allocations::take(UploadId upload) {
  std::vector<std::pair<StripeId, Servers>> taken;
  const auto found = stripes_of_.find(upload);
  if (found == stripes_of_.end()) return taken;
  for (StripeId stripe : found->second) {
    auto node = allocations_.extract(stripe);
    taken.emplace_back(stripe, std::move(node.mapped().servers));
  }
  stripes_of_.erase(found);
  return taken;
}

}  // namespace kintsugi::metaserver
