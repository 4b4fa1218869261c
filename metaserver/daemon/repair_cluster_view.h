/// The metaserver as the repair manager sees it.
#pragma once

#include "common/rpc/client.h"
#include "metaserver/service/meta_state.h"
#include "metaserver/service/repair_service.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::metaserver {

/// References, among them the client that calls chunkservers, outlive it.
class RepairClusterView final : public repair_manager::ClusterView {
 public:
  RepairClusterView(MetaState& state, RepairService& repairs, rpc::Client& client)
      : state_(state), repairs_(repairs), client_(client) {}

  std::vector<repair_manager::ServerView> servers() const override;
  std::string name_of(ServerId server) const override { return state_.servers.name_of(server); }
  std::optional<repair_manager::StripeView> stripe(StripeId id) const override;
  bool deletion_pending(ChunkId chunk, ServerId server) const override;
  std::string capability(ChunkId chunk, uint32_t operations, WallTime expiry) const override;
  asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context context, runtime::Endpoint destination,
                                                              proto::RepairChunkRequest request) override;
  asio::awaitable<void> give_up(Context context, runtime::Endpoint destination,
                                proto::EndRepairRequest request) override;
  asio::awaitable<Status> commit_repair(Context context, ChunkId chunk, ServerId expected_old,
                                        ServerId server) override;
  void report_lost(ChunkId chunk, ServerId server, const std::string& why) override;

 private:
  MetaState& state_;
  RepairService& repairs_;
  rpc::Client& client_;
};

}  // namespace kintsugi::metaserver
