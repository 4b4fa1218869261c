/// Just enough of a cluster to test the client against, on simulated machines: a metaserver that keeps files in maps,
/// and chunkservers that keep chunks in memory and misbehave on request.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/lib/client.h"
#include "common/base/ids.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/inode.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/server.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::client {

class FakeChunkServer {
 public:
  FakeChunkServer(simulation::Simulation& simulation, uint64_t id);

  struct Chunk {
    std::vector<std::byte> bytes;
    std::vector<uint32_t> block_crcs;
  };
  std::map<ChunkId, Chunk> chunks;
  uint64_t id;
  simulation::SimNode node;

  bool hangs = false;                   ///< accepts calls and never answers
  uint64_t fail_write_at = UINT64_MAX;  ///< breaks a write when so many bytes of a chunk came
  Duration read_delay{};                ///< before each frame, and each small chunk
  Duration write_delay{};               ///< before a small chunk is stored
  uint64_t reads = 0;                   ///< ReadChunk and ReadSmallChunk calls
  uint64_t sums = 0;                    ///< PartialSum calls
  bool sums_hang = false;               ///< takes PartialSum calls and sends nothing
  uint64_t fail_sum_at = UINT64_MAX;    ///< breaks a PartialSum stream after so many bytes; all: its end
  Duration sum_delay{};                 ///< before each slice
  std::vector<proto::VerifyChunksRequest> verifications;  ///< VerifyChunks calls
  size_t fail_verify_at = SIZE_MAX;  ///< breaks a VerifyChunks stream after so many verdicts

  std::string address() const;
  void start();
  asio::awaitable<void> stop();
  /// Flips a bit in that chunk, if it is here. Its block CRCs stay.
  bool corrupt(ChunkId chunk, uint64_t offset);

 private:
  asio::awaitable<Status> write(Context context, const proto::WriteChunkRequest& request,
                                rpc::Stream& stream);
  asio::awaitable<Status> read(Context context, const proto::ReadChunkRequest& request, rpc::Stream& stream);
  asio::awaitable<Status> write_small(Context context, const proto::WriteSmallChunkRequest& request,
                                      proto::Empty& response);
  asio::awaitable<Status> read_small(Context context, const proto::ReadSmallChunkRequest& request,
                                     proto::ReadSmallChunkResponse& response);
  asio::awaitable<Status> partial_sum(Context context, const proto::PartialSumRequest& request,
                                      rpc::Stream& stream);
  asio::awaitable<Status> verify(Context context, const proto::VerifyChunksRequest& request,
                                 rpc::Stream& stream);
  asio::awaitable<void> hang(rpc::Stream& stream);
  /// A unary call is left unanswered until the server stops.
  asio::awaitable<void> hang();

  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<rpc::Client> client_;
  std::unique_ptr<runtime::TaskGroup> sleeping_;
};

class FakeMetaServer {
 public:
  explicit FakeMetaServer(simulation::Simulation& simulation,
                          std::vector<std::unique_ptr<FakeChunkServer>>& servers);

  std::string policy = "rs-3-2-64k";
  uint64_t chunk_bytes = 256 * 1024;
  struct File {
    proto::Attributes attributes;
    std::vector<proto::Extent> extents;
  };
  std::map<std::string, File> files;
  std::map<uint64_t, proto::Stripe> stripes;
  std::vector<proto::ReportChunkRequest> reports;
  int replacements = 0, allocations = 0, aborts = 0;
  std::set<uint64_t> known_dead;  ///< servers it does not place on, nor calls available
  std::set<uint64_t> slow;        ///< servers that readers are told to go around

  // ---- deep checks
  /// A reported chunk is lost until so many ShowStripe calls; none: forever.
  std::optional<int> looks_until_repaired;
  std::map<ChunkId, int> lost;    ///< reported chunks, and how often they were looked at
  bool believes_reports = false;  ///< else what readers report changes nothing
  std::vector<proto::RepairRecord> history;

  // ---- degraded reads, whose plans are chains, or stars when asked for
  bool plans_reads = true;  ///< else PlanRead is kUnavailable
  bool wrong_coefficient = false;
  std::vector<proto::PlanReadRequest> plan_requests;
  std::vector<proto::FinishReadRequest> finished_reads;

  // ---- files by inode, which have no path
  std::map<uint64_t, File> inodes;
  std::map<uint64_t, std::set<uint64_t>> sessions;        ///< what each holds
  std::vector<proto::WriteExtentsRequest> extent_writes;  ///< those that were carried out
  std::set<std::pair<uint64_t, uint64_t>> changes;        ///< that were carried out: session, number
  uint64_t inline_refused = 0;
  bool keeps_inline = false;          ///< bytes that come with WriteExtents
  Status refuses_writes;              ///< what WriteExtents is answered with
  Status refuses_names;               ///< what WriteNames is answered with
  Status refuses_pings;               ///< what Ping is answered with
  int locates = 0;                    ///< OpenRead calls
  std::vector<uint64_t> lost_leases;  ///< that sessions are told of
  bool grants_leases = false;         ///< to whoever asks
  std::set<uint64_t> given_back;      ///< leases
  uint64_t lose_answers = 0;          ///< of the next changes: they are carried out all the same
  /// Changes of this kind are carried out at once and answered only so much later.
  std::map<rpc::Method, Duration> answers_after;
  /// Changes are answered at any time up to that, and so out of order; one in four is asked for twice, as its first answer is lost.
  Duration latest_answer{};
  /// An empty file.
  uint64_t add_inode();

  simulation::SimNode node;
  runtime::Endpoint endpoint() const { return {node.name(), 7400}; }
  void start();
  asio::awaitable<void> stop();

 private:
  /// Registers a function that answers at once.
  template <class Request, class Response>
  void answer(rpc::Method method, Status (FakeMetaServer::*function)(const Request&, Response&));
  /// Registers a change, which may be answered late, twice and out of order.
  template <class Request, class Response>
  void answer_change(rpc::Method method, Status (FakeMetaServer::*function)(const Request&, Response&));

  Status ping(const proto::Empty& request, proto::Empty& response);
  Status stat(const proto::StatRequest& request, proto::StatResponse& response);
  Status make_directory(const proto::MakeDirectoryRequest& request, proto::Empty& response);
  Status allocate(const proto::AllocateStripeRequest& request, proto::AllocateStripeResponse& response);
  Status replace(const proto::ReplaceChunkRequest& request, proto::ReplaceChunkResponse& response);
  Status seal_stripe(const proto::SealStripeRequest& request, proto::Empty& response);
  Status commit(const proto::CommitFileRequest& request, proto::CommitFileResponse& response);
  Status abort(const proto::AbortUploadRequest& request, proto::Empty& response);
  Status open_read(const proto::OpenReadRequest& request, proto::OpenReadResponse& response);
  Status report(const proto::ReportChunkRequest& request, proto::Empty& response);
  Status show_stripe(const proto::ShowStripeRequest& request, proto::ShowStripeResponse& response);
  Status fsck(const proto::FsckRequest& request, proto::FsckResponse& response);
  Status repair_history(const proto::RepairHistoryRequest& request, proto::RepairHistoryResponse& response);
  Status plan_read(const proto::PlanReadRequest& request, proto::PlanReadResponse& response);
  Status finish_read(const proto::FinishReadRequest& request, proto::Empty& response);

  Status get_inode(const proto::GetInodeRequest& request, proto::InodeResponse& response);
  Status set_attributes(const proto::SetAttributesRequest& request, proto::InodeResponse& response);
  template <class Files>
  Status write_file(Files file, proto::Attributes& into);
  Status write_names(const proto::WriteNamesRequest& request, proto::WriteNamesResponse& response);
  Status write_extents(const proto::WriteExtentsRequest& request, proto::WriteExtentsResponse& response);
  Status copy_extents(const proto::CopyExtentsRequest& request, proto::CopyExtentsResponse& response);
  Status keep_session(const proto::KeepSessionRequest& request, proto::KeepSessionResponse& response);
  /// True for one that was carried out before.
  bool is_repeat(const proto::Change& change);
  /// The change was carried out. An error in place of its answer, if that is to be lost.
  Status changed(const proto::Change& change);
  void put_extent(File& file, proto::Extent extent);

  Status seal(const proto::SealedStripe& sealed);
  FakeChunkServer* find(uint64_t server);
  /// The stripe with the addresses and capabilities that a reader needs.
  proto::Stripe located(proto::Stripe stripe);
  proto::ChunkPlacement place(uint32_t index, const std::set<uint64_t>& exclude);

  std::vector<std::unique_ptr<FakeChunkServer>>& servers_;
  simulation::Simulation& simulation_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<runtime::TaskGroup> sleeping_;
  std::map<uint64_t, std::string> tickets_;  ///< by stripe
  uint64_t next_id_ = 1;
  uint64_t next_server_ = 0;
};

/// A metaserver, chunkservers and one client.
class FakeCluster {
 public:
  explicit FakeCluster(uint64_t seed, size_t chunkservers = 8, size_t memory_bytes = kMinMemoryBytes);
  ~FakeCluster();

  Client& client() { return *client_; }
  template <class T>
  T run(asio::awaitable<T> task) {
    return simulation.run(std::move(task));
  }

  Status put(const std::string& path, std::span<const std::byte> bytes, WriteOptions options = {});
  Result<std::vector<std::byte>> get(const std::string& path);
  void kill(size_t server);
  /// The server that holds a chunk of the file's first stripe.
  size_t holder(const std::string& path, uint32_t index);
  ChunkId chunk(const std::string& path, uint32_t index);

  /// Files that are open. They must be stopped before the cluster.
  std::unique_ptr<OpenFiles> open_files(FilesOptions options = {},
                                        std::unique_ptr<DirtyMemory> memory = nullptr) {
    return client_->open_files(options, std::move(memory));
  }

  simulation::Simulation simulation;
  std::vector<std::unique_ptr<FakeChunkServer>> servers;
  FakeMetaServer meta;

 private:
  simulation::SimNode client_node_;
  std::unique_ptr<Client> client_;
};

std::vector<std::byte> random_bytes(size_t size, uint64_t seed);

/// A source that cannot seek and does not know its size, like a pipe.
class PipeSource : public Source {
 public:
  explicit PipeSource(std::span<const std::byte> bytes) : memory_(bytes) {}
  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override {
    return memory_.read(offset, into);
  }
  std::optional<uint64_t> size() const override { return std::nullopt; }

 private:
  MemorySource memory_;
};

}  // namespace kintsugi::client
