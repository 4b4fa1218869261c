/// The RPCs that show the state of the cluster: servers, stripes, fsck.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/core.h"

namespace kintsugi::metaserver {

inline constexpr size_t kFsckInodesOfAPage = 2000;
inline constexpr size_t kFsckStripesOfAPage = 5000;
inline constexpr int kFsckProblemsOfAPage = 200;  ///< a page ends early: each names a path

/// One function for each RPC. `core` must outlive it.
class InspectService {
 public:
  explicit InspectService(Core& core) : core_(core) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Result<proto::ListServersResponse>> list_servers(Context context, proto::Empty request);
  asio::awaitable<Result<proto::ShowStripeResponse>> show_stripe(Context context,
                                                                 proto::ShowStripeRequest request);
  asio::awaitable<Result<proto::FsckResponse>> fsck(Context context, proto::FsckRequest request);
  asio::awaitable<Result<proto::Empty>> ping(Context context, proto::Empty request);

  Result<proto::ShowStripeResponse> describe_stripe(StripeId id) const;
  Result<proto::FsckResponse> fsck_page(const Reader& reader, const proto::FsckRequest& request) const;
  void check_file(const Reader& reader, const std::string& path, InodeId inode, proto::FsckResponse& response,
                  size_t& stripes) const;

  Core& core_;
};

}  // namespace kintsugi::metaserver
