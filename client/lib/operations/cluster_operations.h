/// What can be asked of the cluster, and done with it: its servers, its metadata, chunks in quarantine, repairs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/operations/cluster_client.h"
#include "common/proto/meta.pb.h"
#include "common/proto/token.pb.h"

namespace kintsugi::client {

/// A part of Client, which says what holds for paths and errors.
class ClusterOperations {
 public:
  asio::awaitable<Result<proto::ListServersResponse>> list_servers();
  /// Has the server's chunks moved away, or no longer; list_servers shows how many are left.
  asio::awaitable<Status> drain_server(uint64_t server_id, bool drain);
  /// The server may be away for so long: its loss starts no repairs but urgent ones. 0 ends that.
  asio::awaitable<Status> maintain_server(uint64_t server_id, uint64_t seconds);
  /// Limits repairs at each server, each way; 0: no limit.
  asio::awaitable<Status> limit_repairs(uint64_t bytes_per_second);
  /// Forgets a server that is dead or drained: an error while something is still on it.
  asio::awaitable<Status> remove_server(uint64_t server_id);
  asio::awaitable<Result<proto::ShowStripeResponse>> show_stripe(uint64_t stripe_id);
  /// See rpc::placed_stripes.
  asio::awaitable<Result<std::vector<proto::Stripe>>> placed_stripes(std::vector<uint64_t> server_ids);
  /// Checks one page of files by what the metaserver knows, the first one or that which follows `before`: continue
  /// while `more`.
  asio::awaitable<Result<proto::FsckResponse>> fsck(std::string path, const proto::FsckResponse& before = {});
  /// Tells whether the metadata is older than chunks of this cluster, and how many chunks are in quarantine.
  asio::awaitable<Result<proto::MetadataStatusResponse>> metadata_status();
  /// Goes on with metadata that is in doubt. kNotFound: it is not.
  asio::awaitable<Status> accept_metadata();
  /// The cluster takes the newest format that the metaserver knows (common/proto/formats.h): the version before cannot
  /// be brought back any more. kConflict: a daemon does not know it.
  asio::awaitable<Result<proto::FinalizeResponse>> finalize();
  /// One page of the quarantine: continue after its last chunk while `more`.
  asio::awaitable<Result<proto::ListQuarantineResponse>> list_quarantine(
      proto::ListQuarantineRequest request);
  asio::awaitable<Result<proto::ChangeQuarantineResponse>> change_quarantine(
      proto::ChangeQuarantineRequest::Change change, uint64_t stripe_id);
  /// Makes a token (common/rpc/token.h). kAlreadyExists: one of that name may still be used.
  asio::awaitable<Result<proto::CreateTokenResponse>> create_token(proto::CreateTokenRequest request);
  /// One page of tokens: continue after its last one while `more`.
  asio::awaitable<Result<proto::ListTokensResponse>> list_tokens(uint64_t after);
  /// From then on every daemon refuses the token, within seconds. kNotFound.
  asio::awaitable<Result<proto::RevokeTokenResponse>> revoke_token(std::string name);
  /// All daemons that the metaserver knows, itself first.
  asio::awaitable<Result<proto::ListDaemonsResponse>> list_daemons();
  /// Which secrets the daemon at `at` has; none: the metaserver. kNotSupported: its build is from before secrets could
  /// be rotated.
  asio::awaitable<Result<proto::SecretStatusResponse>> secret_status(std::optional<runtime::Endpoint> at);
  asio::awaitable<Result<proto::RepairStatusResponse>> repair_status();
  asio::awaitable<Result<proto::RepairHistoryResponse>> repair_history(uint32_t limit);
  /// Runs one repair, and returns when it has ended, with its record and the names of its servers.
  asio::awaitable<Result<proto::RunRepairResponse>> run_repair(proto::RunRepairRequest request);

 protected:
  /// The cluster client outlives every operation.
  explicit ClusterOperations(ClusterClient& cluster) : cluster_(cluster) {}
  ~ClusterOperations() = default;

 private:
  ClusterClient& cluster_;
};

}  // namespace kintsugi::client
