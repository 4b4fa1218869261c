// Stripe tickets: a client hands them back as it got them.
#include "metaserver/chunks/ticket.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using metaserver::open_ticket;

/// How the signed ticket is changed; the serialised ticket follows.
struct Change {
  uint32_t at = 0;
  uint8_t by = 1;
  uint8_t appended = 1;
};

std::vector<std::string> seeds() {
  proto::StripeTicket ticket;
  ticket.set_stripe_id(81);
  ticket.set_upload_id(5);
  ticket.set_policy("rs-6-3-1024k");
  ticket.set_max_chunk_bytes(64 << 20);
  for (uint64_t server = 1; server <= 9; ++server)
    ticket.add_servers(server << 40);
  ticket.set_expiry_ns(1'000'000'000'000);
  std::vector<std::string> all;
  for (const Change change : {Change{}, Change{.at = 40, .by = 128}, Change{.at = 3, .by = 0}}) {
    all.emplace_back(reinterpret_cast<const char*>(&change), sizeof change);
    all.back() += ticket.SerializeAsString();
  }
  all.push_back(all[0].substr(0, sizeof(Change)));
  return all;
}

void check_denied(const rpc::Secret& secret, std::string_view signed_ticket, WallTime now,
                  std::string_view promise) {
  const auto opened = open_ticket(secret, signed_ticket, now);
  require(!opened, promise);
  require(opened.error().code() == Code::kPermissionDenied, "a ticket that is no good is denied");
  require_one_line(opened.error().message());
}

void check(std::string_view input) {
  Input in(input);
  const auto change = in.number<Change>();
  const std::string_view rest = in.rest();
  const rpc::Secret secret, other_secret{{std::byte{1}}};
  check_denied(secret, input, WallTime::min(), "what nobody signed is denied");
  check_denied(secret, rest, WallTime::min(), "what nobody signed is denied");

  proto::StripeTicket ticket;
  if (!ticket.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) return;
  const std::string signed_ticket = metaserver::sign_ticket(secret, ticket);
  const WallTime expiry{std::chrono::nanoseconds{ticket.expiry_ns()}};
  const auto opened = open_ticket(secret, signed_ticket, expiry);
  // Nothing but its MAC: that is a ticket that says nothing.
  if (ticket.ByteSizeLong() == 0)
    return check_denied(secret, signed_ticket, expiry, "an empty ticket is denied");
  require(opened && opened->SerializeAsString() == ticket.SerializeAsString(),
          "a ticket opens to what was signed");
  if (expiry != WallTime::max()) {
    check_denied(secret, signed_ticket, expiry + std::chrono::nanoseconds(1), "a ticket expires");
  }
  check_denied(other_secret, signed_ticket, expiry, "a ticket of another cluster is denied");

  std::string changed = signed_ticket;
  changed[change.at % changed.size()] ^= static_cast<char>(change.by);
  if (change.by != 0) check_denied(secret, changed, expiry, "a changed ticket is denied");
  check_denied(secret, std::string_view(signed_ticket).substr(0, change.at % signed_ticket.size()), expiry,
               "a shorter ticket is denied");
  check_denied(secret, std::string_view(signed_ticket).substr(1), expiry, "a shorter ticket is denied");
  check_denied(secret, signed_ticket + static_cast<char>(change.appended), expiry,
               "a longer ticket is denied");
}

const Registration registration{{"ticket", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
