/// Finds out why something hangs, and makes faults on purpose.
#pragma once

#include <optional>

#include <boost/asio/awaitable.hpp>

#include "client/lib/operations/cluster_client.h"
#include "common/proto/faults.pb.h"
#include "common/proto/trace.pb.h"
#include "common/runtime/network.h"

namespace kintsugi::proto {
class DiagnoseRequest;  // sight.pb.h, which only who diagnoses needs
class DiagnoseResponse;
}  // namespace kintsugi::proto

namespace kintsugi::client {

/// A part of Client, which says what holds for errors.
class Diagnosis {
 public:
  /// Asks the monitor what is stuck or slow. Without one, or when it does not answer, the metaserver says in its place
  /// what heartbeats tell (DiagnoseResponse::reduced). `known_monitor` is asked when the metaserver cannot say where
  /// the monitor is, as when it is the one that hangs. kUnavailable: nobody answers.
  asio::awaitable<Result<proto::DiagnoseResponse>> diagnose(
      proto::DiagnoseRequest request, std::optional<runtime::Endpoint> known_monitor = {});
  /// Has the daemon at `at` make faults, or end them; none: the metaserver. kInvalidArgument: also when it was built
  /// without fault points.
  asio::awaitable<Result<proto::ChangeFaultsResponse>> change_faults(std::optional<runtime::Endpoint> at,
                                                                     proto::ChangeFaultsRequest request);
  /// Has the daemon at `at` trace itself, or asks how that goes; none: the metaserver.
  asio::awaitable<Result<proto::TraceResponse>> trace(std::optional<runtime::Endpoint> at,
                                                      proto::TraceRequest request);

 protected:
  /// The cluster client outlives every operation.
  explicit Diagnosis(ClusterClient& cluster) : cluster_(cluster) {}
  ~Diagnosis() = default;

 private:
  ClusterClient& cluster_;
};

}  // namespace kintsugi::client
