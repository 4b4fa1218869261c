// Compares the simulated cluster's own account with its disks, and waits until both are right.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "chunkserver/store/disk/chunk_format.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

/// How long health must last: losses are learned from block reports and heartbeats.
constexpr Duration kSteady = std::chrono::seconds(3);
constexpr int kMaxFsckPages = 100'000;

asio::awaitable<Result<proto::FsckResponse>> whole_fsck(client::Client& client) {
  proto::FsckResponse all;
  proto::FsckResponse before;
  for (int page_number = 0; page_number < kMaxFsckPages; ++page_number) {
    std::string root = "/";
    auto page = co_await client.fsck(root, before);
    if (!page) co_return page.error();
    all.set_files(all.files() + page->files());
    all.set_directories(all.directories() + page->directories());
    all.set_stripes(all.stripes() + page->stripes());
    all.set_chunks(all.chunks() + page->chunks());
    all.set_missing_chunks(all.missing_chunks() + page->missing_chunks());
    all.set_degraded_stripes(all.degraded_stripes() + page->degraded_stripes());
    all.set_lost_stripes(all.lost_stripes() + page->lost_stripes());
    all.mutable_problems()->MergeFrom(page->problems());
    all.set_hanging_chunks(all.hanging_chunks() + page->hanging_chunks());
    all.mutable_hanging()->MergeFrom(page->hanging());  // a server once for each page
    all.mutable_damaged_snapshots()->MergeFrom(page->damaged_snapshots());
    if (!page->more()) co_return all;
    before = std::move(*page);
  }
  co_return Status{Code::kInternal, "fsck has no end"};
}

Status not_yet(std::string what) {
  return {Code::kUnavailable, std::move(what)};
}

}  // namespace

Result<proto::FsckResponse> SimulatedCluster::fsck() {
  return run(whole_fsck(client()));
}

Result<proto::ListServersResponse> SimulatedCluster::list_servers() {
  auto list = run(client().list_servers());
  if (!list) return list;
  ids_.resize(servers_.size());
  for (const auto& state : list->servers()) {
    const std::string host = state.address().substr(0, state.address().find(':'));
    for (size_t server = 0; server < servers_.size(); ++server)
      if (host == name(server)) ids_[server] = ServerId{state.server_id()};
  }
  return list;
}

ServerId SimulatedCluster::server_id(size_t server) {
  if (ids_.size() <= server || !ids_[server]) (void)list_servers();
  return ids_.size() > server ? ids_[server] : ServerId{};
}

std::optional<size_t> SimulatedCluster::server_of(ServerId id) const {
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  if (!id || found == ids_.end()) return std::nullopt;
  return static_cast<size_t>(found - ids_.begin());
}

Result<proto::ServerState::Liveness> SimulatedCluster::liveness(size_t server) {
  const auto list = list_servers();
  if (!list) return list.error();
  for (const auto& state : list->servers())
    if (ServerId{state.server_id()} == ids_[server]) return state.liveness();
  return Status{Code::kNotFound, name(server) + " is not registered"};
}

std::vector<proto::RepairRecord> SimulatedCluster::repair_history() {
  const auto history = run(client().repair_history(1000));
  if (!history) {
    ADD_FAILURE() << history.error();
    return {};
  }
  return {history->records().begin(), history->records().end()};
}

Duration SimulatedCluster::since_start(int64_t wall_ns) {
  const auto wall_now = simulation_.clock().wall_now().time_since_epoch();
  return elapsed() - (wall_now - std::chrono::nanoseconds(wall_ns));
}

Status SimulatedCluster::wait_until(const std::function<Status()>& ok, Duration limit) {
  const TimePoint end = simulation_.now() + limit;
  while (true) {
    const Status status = ok();
    if (status.ok()) return {};
    if (simulation_.now() >= end) return {Code::kDeadlineExceeded, status.message()};
    run_for(kLook);
  }
}

Status SimulatedCluster::health() {
  const auto list = list_servers();
  if (!list) return list.error();
  for (size_t server = 0; server < servers_.size(); ++server) {
    const bool here = running(server) && network().reachable(name(server), "metaserver");
    const auto wanted = here ? proto::ServerState::ALIVE : proto::ServerState::DEAD;
    for (const auto& state : list->servers()) {
      if (ServerId{state.server_id()} == ids_[server] && state.liveness() != wanted)
        return not_yet(fmt::format("{} is not {}", name(server), here ? "alive" : "dead"));
    }
  }
  const auto check = fsck();
  if (!check) return check.error();
  const auto repairs = repair_status();
  if (!repairs) return repairs.error();
  const bool whole = check->missing_chunks() + check->degraded_stripes() + check->lost_stripes() == 0;
  const bool at_rest =
      repairs->queued() + repairs->delayed() + repairs->unrepairable() == 0 && repairs->running_size() == 0;
  if (whole && at_rest) return {};
  std::string what = fmt::format(
      "{} chunks are missing, {} stripes degraded, {} lost; {} repairs are queued, {} delayed, {} running, "
      "{} "
      "impossible",
      check->missing_chunks(), check->degraded_stripes(), check->lost_stripes(), repairs->queued(),
      repairs->delayed(), repairs->running_size(), repairs->unrepairable());
  for (const auto& problem : check->problems())
    what += fmt::format("; {}: stripe {}: {}", problem.path(), problem.stripe_id(), problem.detail());
  return not_yet(what);
}

Status SimulatedCluster::wait_until_healthy(Duration limit) {
  std::optional<TimePoint> healthy_since;
  return wait_until(
      [&]() -> Status {
        const Status status = health();
        if (!status.ok()) {
          healthy_since.reset();
          return status;
        }
        if (!healthy_since) healthy_since = simulation_.now();
        if (simulation_.now() - *healthy_since < kSteady) return not_yet("healthy, but not for long");
        return {};
      },
      limit);
}

Status SimulatedCluster::wait_until_dead(size_t server, Duration limit) {
  return wait_until(
      [&]() -> Status {
        const auto state = liveness(server);
        if (!state) return state.error();
        return *state == proto::ServerState::DEAD ? Status{} : not_yet(name(server) + " is not dead");
      },
      limit);
}

Status SimulatedCluster::wait_until_alive(size_t server, Duration limit) {
  return wait_until(
      [&]() -> Status {
        const auto state = liveness(server);
        if (!state) return state.error();
        return *state == proto::ServerState::ALIVE ? Status{} : not_yet(name(server) + " is not alive");
      },
      limit);
}

// ---- disks -----------------------------------------------------------------------------------------------

std::vector<std::string> SimulatedCluster::chunk_paths(size_t server) {
  std::vector<std::string> paths;
  for (size_t number = 0; number < options_.disks; ++number) {
    const std::string chunks = fmt::format("/disk-{}/chunks", number);
    for (const std::string& directory : disk(server).list_now(chunks))
      for (const std::string& file : disk(server).list_now(chunks + "/" + directory))
        paths.push_back(chunks + "/" + directory + "/" + file);
  }
  return paths;
}

std::vector<ChunkId> SimulatedCluster::chunk_files(size_t server) {
  std::vector<ChunkId> chunks;
  for (const std::string& path : chunk_paths(server)) {
    const auto chunk = chunkserver::parse_chunk_file_name(std::string_view(path).substr(path.rfind('/') + 1));
    if (chunk) chunks.push_back(chunk->id);
  }
  return chunks;
}

std::vector<size_t> SimulatedCluster::holders(ChunkId chunk) {
  std::vector<size_t> found;
  for (size_t server = 0; server < servers_.size(); ++server) {
    const auto chunks = chunk_files(server);
    if (std::find(chunks.begin(), chunks.end(), chunk) != chunks.end()) found.push_back(server);
  }
  return found;
}

bool SimulatedCluster::rot(size_t server, ChunkId chunk) {
  const std::string file = "/" + chunkserver::chunk_file_name(chunk) + "-";
  for (const std::string& path : chunk_paths(server)) {
    if (path.find(file) == std::string::npos) continue;
    const auto bytes = disk(server).read_now(path);
    if (!bytes) return false;
    const uint64_t data_bytes =
        std::min<uint64_t>(bytes->size() - chunkserver::kChunkDataOffset, options_.chunk_bytes);
    const uint64_t at = chunkserver::kChunkDataOffset + random_below(data_bytes);
    return disk(server).flip_bit(path, at, static_cast<unsigned>(random_below(8))).ok();
  }
  return false;
}

bool SimulatedCluster::spoil(size_t server, ChunkId chunk) {
  const std::string file = "/" + chunkserver::chunk_file_name(chunk) + "-";
  for (const std::string& path : chunk_paths(server)) {
    const auto bytes =
        path.find(file) != std::string::npos ? disk(server).read_now(path) : Status{Code::kNotFound, path};
    if (bytes && !bytes->empty()) return disk(server).spoil(path, random_below(bytes->size())).ok();
  }
  return false;
}

Result<std::set<std::pair<ServerId, ChunkId>>> SimulatedCluster::quarantine() {
  std::set<std::pair<ServerId, ChunkId>> chunks;
  proto::ListQuarantineRequest request;
  while (true) {
    KINTSUGI_ASSIGN(const proto::ListQuarantineResponse page, run(client().list_quarantine(request)));
    for (const proto::QuarantinedChunk& chunk : page.chunks())
      chunks.insert({ServerId{chunk.server_id()}, {StripeId{chunk.stripe_id()}, chunk.index()}});
    if (!page.more()) return chunks;
    *request.mutable_after() = page.chunks(page.chunks_size() - 1);
  }
}

Status SimulatedCluster::stray_chunks() {
  std::map<ChunkId, ServerId> places;
  for (const std::string& path : oracle_.paths()) {
    const auto extents = run(client().extents(path));
    if (!extents && extents.error().code() == Code::kNotFound) continue;
    if (!extents) return extents.error();
    for (const auto& stripe : extents->stripes())
      for (const auto& chunk : stripe.chunks())
        places[{StripeId{stripe.stripe_id()}, chunk.index()}] = ServerId{chunk.server_id()};
  }
  KINTSUGI_ASSIGN(const auto kept, quarantine());
  for (const size_t server : up()) {
    for (const ChunkId chunk : chunk_files(server)) {
      const auto place = places.find(chunk);
      if (kept.contains({server_id(server), chunk})) continue;
      if (place == places.end())
        return not_yet(fmt::format("{} holds chunk {}, which no file has", name(server), chunk));
      if (place->second != server_id(server))
        return not_yet(fmt::format("{} holds a stale copy of chunk {}", name(server), chunk));
    }
  }
  return {};
}

Status SimulatedCluster::wait_until_no_stray_chunks(Duration limit) {
  return wait_until([this] { return stray_chunks(); }, limit);
}

}  // namespace kintsugi::simulation
