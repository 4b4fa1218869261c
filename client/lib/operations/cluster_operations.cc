#include "client/lib/operations/cluster_operations.h"

#include "client/lib/fsck_pages.h"
#include "common/rpc/placed_stripes.h"

namespace kintsugi::client {

using rpc::Method;

asio::awaitable<Result<proto::ListServersResponse>> ClusterOperations::list_servers() {
  return cluster_.ask<proto::ListServersResponse>(Method::kListServers, std::make_unique<proto::Empty>());
}

asio::awaitable<Status> ClusterOperations::drain_server(uint64_t server_id, bool drain) {
  auto request = std::make_unique<proto::DrainServerRequest>();
  request->set_server_id(server_id);
  request->set_drain(drain);
  return cluster_.tell(Method::kDrainServer, std::move(request));
}

asio::awaitable<Status> ClusterOperations::maintain_server(uint64_t server_id, uint64_t seconds) {
  auto request = std::make_unique<proto::MaintainServerRequest>();
  request->set_server_id(server_id);
  request->set_seconds(seconds);
  return cluster_.tell(Method::kMaintainServer, std::move(request));
}

asio::awaitable<Status> ClusterOperations::limit_repairs(uint64_t bytes_per_second) {
  auto request = std::make_unique<proto::LimitRepairsRequest>();
  request->set_bytes_per_second(bytes_per_second);
  return cluster_.tell(Method::kLimitRepairs, std::move(request));
}

asio::awaitable<Status> ClusterOperations::remove_server(uint64_t server_id) {
  auto request = std::make_unique<proto::RemoveServerRequest>();
  request->set_server_id(server_id);
  return cluster_.tell(Method::kRemoveServer, std::move(request), Repeat::kNever);
}

asio::awaitable<Result<proto::ShowStripeResponse>> ClusterOperations::show_stripe(uint64_t stripe_id) {
  auto request = std::make_unique<proto::ShowStripeRequest>();
  request->set_stripe_id(stripe_id);
  return cluster_.ask<proto::ShowStripeResponse>(Method::kShowStripe, std::move(request));
}

asio::awaitable<Result<std::vector<proto::Stripe>>> ClusterOperations::placed_stripes(
    std::vector<uint64_t> server_ids) {
  const auto ask = [this](Method method, const auto& request, auto& response) {
    return cluster_.resources().meta.call(cluster_.context(), method, request, response);
  };
  return rpc::placed_stripes(ask, std::move(server_ids));
}

asio::awaitable<Result<proto::FsckResponse>> ClusterOperations::fsck(std::string path,
                                                                     const proto::FsckResponse& before) {
  auto request = cluster_.request_for<proto::FsckRequest>(std::move(path));
  continue_after(before, *request);
  return cluster_.ask<proto::FsckResponse>(Method::kFsck, std::move(request), Repeat::kAllowed,
                                           MetaLink::kLongCallLimit);
}

asio::awaitable<Result<proto::MetadataStatusResponse>> ClusterOperations::metadata_status() {
  return cluster_.ask<proto::MetadataStatusResponse>(Method::kMetadataStatus,
                                                     std::make_unique<proto::Empty>());
}

asio::awaitable<Status> ClusterOperations::accept_metadata() {
  return cluster_.tell(Method::kAcceptMetadata, std::make_unique<proto::Empty>(), Repeat::kNever);
}

asio::awaitable<Result<proto::FinalizeResponse>> ClusterOperations::finalize() {
  return cluster_.ask<proto::FinalizeResponse>(Method::kFinalize, std::make_unique<proto::Empty>());
}

asio::awaitable<Result<proto::ListQuarantineResponse>> ClusterOperations::list_quarantine(
    proto::ListQuarantineRequest request) {
  return cluster_.ask<proto::ListQuarantineResponse>(
      Method::kListQuarantine, std::make_unique<proto::ListQuarantineRequest>(std::move(request)));
}

asio::awaitable<Result<proto::ChangeQuarantineResponse>> ClusterOperations::change_quarantine(
    proto::ChangeQuarantineRequest::Change change, uint64_t stripe_id) {
  auto request = std::make_unique<proto::ChangeQuarantineRequest>();
  request->set_change(change);
  request->set_stripe_id(stripe_id);
  return cluster_.ask<proto::ChangeQuarantineResponse>(Method::kChangeQuarantine, std::move(request),
                                                       Repeat::kAllowed, MetaLink::kLongCallLimit);
}

asio::awaitable<Result<proto::CreateTokenResponse>> ClusterOperations::create_token(
    proto::CreateTokenRequest request) {
  return cluster_.ask<proto::CreateTokenResponse>(
      Method::kCreateToken, std::make_unique<proto::CreateTokenRequest>(std::move(request)), Repeat::kNever);
}

asio::awaitable<Result<proto::ListTokensResponse>> ClusterOperations::list_tokens(uint64_t after) {
  auto request = std::make_unique<proto::ListTokensRequest>();
  request->set_after(after);
  return cluster_.ask<proto::ListTokensResponse>(Method::kListTokens, std::move(request));
}

asio::awaitable<Result<proto::RevokeTokenResponse>> ClusterOperations::revoke_token(std::string name) {
  auto request = std::make_unique<proto::RevokeTokenRequest>();
  request->set_name(std::move(name));
  return cluster_.ask<proto::RevokeTokenResponse>(Method::kRevokeToken, std::move(request), Repeat::kNever);
}

asio::awaitable<Result<proto::ListDaemonsResponse>> ClusterOperations::list_daemons() {
  return cluster_.ask<proto::ListDaemonsResponse>(Method::kListDaemons, std::make_unique<proto::Empty>());
}

asio::awaitable<Result<proto::SecretStatusResponse>> ClusterOperations::secret_status(
    std::optional<runtime::Endpoint> at) {
  proto::SecretStatusResponse response;
  const Resources& resources = cluster_.resources();
  const Context limited = cluster_.context().with_deadline(resources.now() + MetaLink::kCallLimit);
  KINTSUGI_CO_TRY(co_await cluster_.resources().rpc.call(limited, at.value_or(resources.options.metaserver),
                                                         Method::kSecretStatus, proto::Empty(), response));
  co_return response;
}

asio::awaitable<Result<proto::RepairStatusResponse>> ClusterOperations::repair_status() {
  return cluster_.ask<proto::RepairStatusResponse>(Method::kRepairStatus, std::make_unique<proto::Empty>());
}

asio::awaitable<Result<proto::RepairHistoryResponse>> ClusterOperations::repair_history(uint32_t limit) {
  auto request = std::make_unique<proto::RepairHistoryRequest>();
  request->set_limit(limit);
  return cluster_.ask<proto::RepairHistoryResponse>(Method::kRepairHistory, std::move(request));
}

asio::awaitable<Result<proto::RunRepairResponse>> ClusterOperations::run_repair(
    proto::RunRepairRequest request) {
  proto::RunRepairResponse answer;
  KINTSUGI_CO_TRY(co_await cluster_.resources().meta.call(cluster_.context(), Method::kRunRepair, request,
                                                          answer, Repeat::kNever, MetaLink::kLongCallLimit));
  co_return answer;
}

}  // namespace kintsugi::client
