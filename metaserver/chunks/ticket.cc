#include "metaserver/chunks/ticket.h"

namespace kintsugi::metaserver {
namespace {

constexpr std::string_view kPurpose = "stripe ticket";
constexpr size_t kMacBytes = sizeof(rpc::Mac);

}  // namespace

std::string sign_ticket(const rpc::Secret& secret, const proto::StripeTicket& ticket) {
  std::string bytes = ticket.SerializeAsString();
  const rpc::Mac mac = secret.mac(kPurpose, std::as_bytes(std::span(bytes)));
  return bytes.append(reinterpret_cast<const char*>(mac.data()), mac.size());
}

Result<proto::StripeTicket> open_ticket(const rpc::Secret& secret, std::string_view signed_ticket,
                                        WallTime now) {
  const Status forged{Code::kPermissionDenied, "the stripe's ticket is not one of this cluster"};
  if (signed_ticket.size() <= kMacBytes) return forged;
  const std::string_view message = signed_ticket.substr(0, signed_ticket.size() - kMacBytes);
  const std::string_view mac = signed_ticket.substr(message.size());
  if (!secret.accepts(kPurpose, std::as_bytes(std::span(message)), std::as_bytes(std::span(mac))))
    return forged;
  proto::StripeTicket ticket;
  if (!ticket.ParseFromArray(message.data(), static_cast<int>(message.size()))) return forged;
  if (ticket.expiry_ns() < now.time_since_epoch().count()) {
    return Status{Code::kPermissionDenied, "the stripe's ticket has expired"};
  }
  return ticket;
}

}  // namespace kintsugi::metaserver
