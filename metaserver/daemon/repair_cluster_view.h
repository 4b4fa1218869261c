/// The metaserver as the repair manager sees it.
#pragma once

#include "metaserver/service/metaserver.h"
#include "repair_manager/cluster_view.h"

namespace kintsugi::metaserver {

/// `metaserver` outlives it.
class RepairClusterView final : public repair_manager::ClusterView {
 public:
  explicit RepairClusterView(MetaServer& metaserver) : metaserver_(metaserver) {}

  std::vector<repair_manager::ServerView> servers() const override;
  std::optional<repair_manager::StripeView> stripe(StripeId id) const override;
  bool deletion_pending(ChunkId chunk, ServerId server) const override;
  std::string capability(ChunkId chunk, uint32_t operations, WallTime expiry) const override;
  asio::awaitable<Status> commit_repair(Context context, ChunkId chunk, ServerId expected_old,
                                        ServerId server) override;
  void report_lost(ChunkId chunk, ServerId server, const std::string& why) override;

 private:
  MetaServer& metaserver_;
};

}  // namespace kintsugi::metaserver
