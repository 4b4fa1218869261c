/// A cluster of any size whose links are a fluid: the repair manager's view of it, and repair trees as flows.
///
/// A repair's tree becomes flows:
///
/// ```
/// sliced     one flow over all its hops, as fast as the slowest; depth - 1 slices, or what is forwarded of them at
///            once, fill and drain it
/// unsliced   a flow a hop, which begins when the sender has all it adds: the timesteps of Mitra 2016
/// star       a flow a helper
/// ```
///
/// A hop carries as many sums as the tree sends over it: one for each chunk that is rebuilt in the same pass. A hop
/// between two racks takes their uplinks, too. Each hop costs its latency on the way down and up, each slice its
/// overhead. A server's links carry what its users leave, and no more than it lets repairs have. Disks, CPUs and
/// switches are not modelled.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/runtime/event.h"
#include "erasure/policy.h"
#include "repair_manager/trees/cost_model.h"
#include "repair_manager/view/cluster_view.h"
#include "repair_manager/view/server_table.h"
#include "repair_manager/what_if/fluid_network.h"

namespace kintsugi::what_if {

struct FluidState {
  /// Ids are 1, 2, 3, ... in this order. Addresses are filled in.
  std::vector<repair_manager::ServerView> servers;
  /// Ids are 1, 2, 3, ... in this order. Chunks on servers that are not alive are not available.
  std::vector<repair_manager::StripeView> stripes;
  /// Links; servers whose rate nobody knows have the rate that stands here.
  repair_manager::LinkModel link;
  double rack_rate = 0;     ///< bytes/s between a rack and the others, each way; 0: no limit
  double repairs_each = 1;  ///< number of repairs, one after the other, that are simulated as one
  /// The same by stripe, in place of `repairs_each`; empty: all have that.
  std::vector<double> repairs_of_stripe;
  /// Seconds for which a simulated one stands: every repair takes so much less time.
  double seconds_each = 1;

  /// Seconds after which the metaserver declares a server dead that is not alive, by server; empty: all are dead at once.
  /// Who simulates does so (set_available).
  std::vector<double> declared_seconds;

  bool fills_up = false;  ///< rebuilt chunks take the free space of their servers
  FluidNetwork::Settings network = {};
};

class FluidCluster final : public repair_manager::ClusterView {
 public:
  /// A chunk that was rebuilt and committed.
  struct Commit {
    TimePoint began, at;
    double bytes = 0;      ///< bytes of all repairs for which this one stands
    uint32_t lacking = 0;  ///< chunks that its stripe lacked, this one included, noticed or not
    StripeId stripe;
  };

  /// `clock` outlives it. REQUIRES: a state as its comments say, of policies that Policy::parse knows.
  FluidCluster(asio::any_io_executor executor, runtime::Clock& clock, FluidState state);

  std::vector<repair_manager::ServerView> servers() const override { return state_.servers; }
  std::string name_of(ServerId server) const override;
  std::optional<repair_manager::StripeView> stripe(StripeId id) const override;
  bool deletion_pending(ChunkId, ServerId) const override { return false; }
  std::string capability(ChunkId, uint32_t, WallTime) const override { return {}; }
  void report_lost(ChunkId, ServerId, const std::string&) override {}
  asio::awaitable<Status> commit_repair(Context, ChunkId chunk, ServerId, ServerId server) override;
  asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context, runtime::Endpoint destination,
                                                              proto::RepairChunkRequest request) override;
  /// Every execute() ends soon, with kCancelled. Nothing may begin from now on.
  void stop();
  /// Chunks of a server that is not alive count as available until it is declared dead, though no repair can use them.
  void set_available(const std::vector<ChunkId>& chunks, bool available);

  /// Sends a chunk from server to server, by their positions, which takes the time of so many repairs.
  void send(uint32_t from, uint32_t to, double bytes, std::function<void()> arrived, double repairs = 1);

  const FluidState& state() const { return state_; }
  /// The repairs for which that of the stripe stands.
  double repairs_for(StripeId stripe) const {
    return state_.repairs_of_stripe.empty() ? state_.repairs_each
                                            : state_.repairs_of_stripe[stripe.value - 1];
  }
  /// The repairs whose time that of the stripe takes.
  double time_of(StripeId stripe) const { return repairs_for(stripe) / state_.seconds_each; }
  const FluidNetwork& network() const { return network_; }
  FluidNetwork& network() { return network_; }
  const std::vector<Commit>& commits() const { return commits_; }
  std::optional<TimePoint> first_begin() const { return first_begin_; }  ///< nothing: no repair has begun
  /// The chunks that are missing, by the server that had them; key none: no server had them.
  std::map<ServerId, std::vector<ChunkId>> missing_chunks() const;

  /// Links of a server or rack, by its position.
  uint32_t up(uint32_t server) const { return 2 * server; }
  uint32_t down(uint32_t server) const { return 2 * server + 1; }
  bool has_rack_links() const { return rack_links_ > 0; }
  uint32_t rack_up(uint32_t rack) const { return rack_links_ + 2 * rack; }
  uint32_t rack_down(uint32_t rack) const { return rack_links_ + 2 * rack + 1; }
  size_t racks() const { return table_.racks(); }
  uint32_t rack_of(uint32_t server) const { return table_.rack_of(server); }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<proto::RepairNode>;
  using Done = std::function<void()>;
  using Share = FluidNetwork::Share;

  /// A repair that runs.
  struct Transfer {
    explicit Transfer(asio::any_io_executor executor, runtime::Clock& clock)
        : ended(std::move(executor), clock) {}
    size_t open = 1;
    runtime::Event ended;
  };
  /// A hop of a tree, and the sums that it carries, in whole chunks.
  struct Hop {
    uint32_t from, to;
    double sums;
  };

  bool can_be_read(const repair_manager::ChunkView& chunk) const;
  void begin(const proto::RepairChunkRequest& request, const Done& done, size_t& open);
  void begin_pipeline(const proto::RepairChunkRequest& request, uint32_t root, const Done& done);
  void begin_store_and_forward(const proto::RepairChunkRequest& request, const Nodes& nodes, uint32_t parent,
                               const std::shared_ptr<std::pair<size_t, Done>>& sent, const Done& done,
                               size_t& open);
  void add_hops(const Nodes& nodes, uint32_t parent, double share, uint32_t rows,
                std::vector<Hop>& out) const;
  /// Adds to `loads_` what a hop takes of each of its links.
  void load(const Hop& hop);
  std::vector<Share> take_loads();
  void after(double seconds, std::function<void()> what);

  asio::any_io_executor executor_;
  runtime::Clock& clock_;
  FluidState state_;
  repair_manager::ServerTable table_;  // as the servers were at first
  FluidNetwork network_;
  uint32_t rack_links_ = 0;
  std::vector<double> loads_;  // index: link; all 0 between two repairs
  std::vector<uint32_t> loaded_;
  std::vector<Commit> commits_;

  std::optional<TimePoint> first_begin_;
  std::vector<TimePoint> began_;  // index: stripe; the begin of its last repair
  std::vector<std::weak_ptr<Transfer>> transfers_;
  bool stopping_ = false;
};

}  // namespace kintsugi::what_if
