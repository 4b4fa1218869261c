/// What can be done with files and directories by their paths, beside moving bytes.
#pragma once

#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "client/lib/operations/cluster_client.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

/// A part of Client, which says what holds for paths and errors.
class PathOperations {
 public:
  asio::awaitable<Result<proto::Attributes>> stat(std::string path);
  /// Lists one page: entries whose names are greater than `after`.
  asio::awaitable<Result<proto::ListResponse>> list(std::string path, std::string after = "",
                                                    uint32_t limit = 0);
  asio::awaitable<Status> make_directory(std::string path, bool parents, uint32_t mode = 0755);
  asio::awaitable<Status> remove(std::string path, bool recursive);
  asio::awaitable<Status> rename(std::string from, std::string to, bool replace);
  /// Lists extents and stripes of a file, all pages put together.
  asio::awaitable<Result<proto::OpenReadResponse>> extents(std::string path);

  asio::awaitable<Result<proto::ListPoliciesResponse>> list_policies();
  asio::awaitable<Result<proto::GetPolicyResponse>> get_policy(std::string path);
  asio::awaitable<Status> set_policy(std::string path, std::string policy);

  asio::awaitable<Result<proto::DiskUsageResponse>> disk_usage(std::string path);
  /// `within`: it is a part of that work.
  asio::awaitable<Result<proto::DiskFreeResponse>> disk_free(std::optional<Context> within = {});

 protected:
  /// The cluster client outlives every operation.
  explicit PathOperations(ClusterClient& cluster) : cluster_(cluster) {}
  ~PathOperations() = default;

 private:
  ClusterClient& cluster_;
};

}  // namespace kintsugi::client
