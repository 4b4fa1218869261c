#include "common/rpc/audit_detail.h"

#include <fmt/format.h>

#include "common/base/quote.h"
#include "common/proto/faults.pb.h"
#include "common/proto/meta.pb.h"
#include "common/proto/token.pb.h"
#include "common/proto/trace.pb.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kMostOfAText = 200;

std::string about(const proto::RunRepairRequest& request) {
  return fmt::format("chunk {}:{}", request.stripe_id(), request.index());
}

std::string about(const proto::DrainServerRequest& request) {
  return fmt::format("server {:016x}, {}", request.server_id(), request.drain() ? "drain" : "undrain");
}

std::string about(const proto::MaintainServerRequest& request) {
  return fmt::format(
      "server {:016x}, {}", request.server_id(),
      request.seconds() == 0 ? "maintenance ends" : fmt::format("maintenance for {} s", request.seconds()));
}

std::string about(const proto::LimitRepairsRequest& request) {
  return request.bytes_per_second() == 0 ? "off" : fmt::format("{} bytes/s", request.bytes_per_second());
}

std::string about(const proto::RemoveServerRequest& request) {
  return fmt::format("server {:016x}", request.server_id());
}

std::string about(const proto::ChangeQuarantineRequest& request) {
  const bool empty = request.change() == proto::ChangeQuarantineRequest::EMPTY;
  const std::string which =
      request.stripe_id() == 0 ? "all chunks" : fmt::format("stripe {}", request.stripe_id());
  return fmt::format("{}, {}", which, empty ? "empty" : "keep");
}

std::string_view role_of(const proto::TokenClaims& claims) {
  switch (claims.role()) {
    case proto::TokenClaims::READ: return "read";
    case proto::TokenClaims::WRITE: return "write";
    case proto::TokenClaims::ADMIN: return "admin";
    default: return "none";
  }
}

std::string about(const proto::CreateTokenRequest& request) {
  const proto::TokenClaims& claims = request.claims();
  return fmt::format("{}, role {}, path {}, {}", quoted(claims.name(), kMostOfAText), role_of(claims),
                     quoted(claims.path(), kMostOfAText),
                     claims.squash() ? "root squashed" : "root stays root");
}

std::string about(const proto::RevokeTokenRequest& request) {
  return quoted(request.name(), kMostOfAText);
}

std::string about(const proto::SetQuotaRequest& request) {
  std::string limits;
  if (request.has_max_bytes()) limits += fmt::format(", {} bytes", request.max_bytes());
  if (request.has_max_files()) limits += fmt::format(", {} files", request.max_files());
  return quoted(request.path(), kMostOfAText) + (limits.empty() ? ", removed" : limits);
}

std::optional<std::string> about(const proto::ChangeFaultsRequest& request) {
  if (request.set().empty() && request.remove().empty() && !request.clear()) return std::nullopt;
  std::string text = request.clear() ? "clear" : fmt::format("remove {}", request.remove_size());
  for (const proto::InjectedFault& fault : request.set())
    text +=
        fmt::format(", set {} {}", quoted(fault.point(), kMostOfAText), quoted(fault.action(), kMostOfAText));
  return text;
}

std::optional<std::string> about(const proto::TraceRequest& request) {
  if (request.action() == proto::TraceRequest::DETACH) return "detach";
  if (request.action() != proto::TraceRequest::ATTACH) return std::nullopt;
  return "attach " + quoted(request.start(), kMostOfAText);
}

template <class Request>
std::optional<std::string> about_as(const google::protobuf::MessageLite& request) {
  return about(static_cast<const Request&>(request));
}

}  // namespace

std::optional<std::string> audit_detail(Method method, const google::protobuf::MessageLite& request) {
  switch (method) {
    case Method::kRunRepair: return about_as<proto::RunRepairRequest>(request);
    case Method::kDrainServer: return about_as<proto::DrainServerRequest>(request);
    case Method::kRemoveServer: return about_as<proto::RemoveServerRequest>(request);
    case Method::kMaintainServer: return about_as<proto::MaintainServerRequest>(request);
    case Method::kLimitRepairs: return about_as<proto::LimitRepairsRequest>(request);
    case Method::kChangeQuarantine: return about_as<proto::ChangeQuarantineRequest>(request);
    case Method::kCreateToken: return about_as<proto::CreateTokenRequest>(request);
    case Method::kRevokeToken: return about_as<proto::RevokeTokenRequest>(request);
    case Method::kSetQuota: return about_as<proto::SetQuotaRequest>(request);
    case Method::kChangeFaults: return about_as<proto::ChangeFaultsRequest>(request);
    case Method::kTrace: return about_as<proto::TraceRequest>(request);
    default: return "";
  }
}

}  // namespace kintsugi::rpc
