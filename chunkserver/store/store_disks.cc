#include "chunkserver/store/store_disks.h"

#include <algorithm>

#include "chunkserver/store/disk_choice.h"
#include "chunkserver/store/disk_step.h"
#include "chunkserver/store/late_disk.h"
#include "chunkserver/store/owner.h"
#include "chunkserver/store/store_start.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

/// Left free on a disk, for metadata of the file system and for chunks whose size grows.
constexpr uint64_t kReservedBytes = 16ull << 20;

std::vector<std::unique_ptr<StoreRoot>> make_roots(const runtime::Runtime& runtime,
                                                   const StoreOptions& options) {
  std::vector<std::unique_ptr<StoreRoot>> roots;
  for (size_t position = 0; position < options.disks.size(); ++position)
    roots.push_back(make_root(runtime, options, position));
  return roots;
}

}  // namespace

StoreDisks::StoreDisks(const runtime::Runtime& runtime, const StoreOptions& options, StoredChunks& chunks,
                       runtime::TaskGroup& tasks)
    : runtime_(runtime),
      options_(options),
      chunks_(chunks),
      tasks_(tasks),
      roots_(make_roots(runtime, options)),
      calls_(runtime) {
  for (const auto& root : roots_) {
    chunks_.follow(*root);
    const auto missing = options_.missing_disks.find(root->disk.root());
    if (missing != options_.missing_disks.end()) root->disk.fail({Code::kNotFound, missing->second});
  }
}

asio::awaitable<Status> StoreDisks::start() {
  if (roots_.empty() || roots_.size() > kMaxDisks) {
    co_return Status{Code::kInvalidArgument,
                     fmt::format("{} disks; between 1 and {} are needed", roots_.size(), kMaxDisks)};
  }
  StoreStart starting(runtime_, roots_, tasks_);
  KINTSUGI_CO_TRY(co_await starting.lock());
  KINTSUGI_CO_ASSIGN(identity_, co_await starting.prepare());
  co_await starting.load(chunks_.index());
  chunks_.add_unusable(starting.unusable());
  const bool usable = std::ranges::any_of(roots_, [](const auto& root) { return !root->disk.failed(); });
  if (!usable) co_return Status{Code::kUnavailable, "none of the disks can be used"};
  for (auto& root : roots_) {
    if (!root->disk.failed()) begin_work(*root);
  }
  for (const StoreRoot* root : starting.hung())
    tasks_.spawn(take_in(root->position));
  for (const ChunkIndex::Entry& copy : starting.surplus())
    chunks_.surplus().add(copy);
  co_return Status{};
}

void StoreDisks::begin_work(StoreRoot& root) {
  root.segments.start(tasks_);
  tasks_.spawn(root.guard.watch(tasks_));
  tasks_.spawn(root.disk.keep_space_fresh(tasks_));
}

asio::awaitable<void> StoreDisks::take_in(size_t position) {
  LateDisk late(runtime_, options_, tasks_);
  LateDisk::Found found = co_await late.find(*roots_[position], identity_);
  if (!found.root) co_return;
  StoreRoot& root = *found.root;
  chunks_.follow(root);
  given_up_.push_back(std::exchange(roots_[position], std::move(found.root)));
  begin_work(root);
  // The server may have joined its cluster since the disk was bound.
  const Status kept = co_await keep_owner(root, identity_);
  if (!kept.ok()) root.disk.fail(kept);
  chunks_.add_unusable(found.chunks->unusable());
  const size_t chunks =
      co_await merge(runtime_, found.chunks->take_found(), chunks_.index(), chunks_.surplus(), tasks_);
  log::info("disk {} has joined with {} chunks", root.disk.root(), chunks);
  ++joined_;
}

void StoreDisks::stop_segments() {
  for (auto& root : roots_)
    root->segments.stop();
}

void StoreDisks::unlock() {
  for (auto& root : roots_)
    root->guard.release();
}

void StoreDisks::keep_metadata_mark(MetadataMark mark) {
  identity_.metadata = mark;
  for (const auto& root : roots_) {
    if (root->disk.takes_writes() && !root->saving_mark) tasks_.spawn(save_mark(*root, identity_));
  }
}

asio::awaitable<Status> StoreDisks::join_cluster(std::string cluster, uint32_t number, uint32_t format) {
  KINTSUGI_CO_TRY(chunkserver::join_cluster(identity_, std::move(cluster), number, format));
  std::vector<DiskStep> steps;
  for (const auto& root : roots_) {
    if (!root->disk.failed()) steps.push_back({root.get(), keep_owner(*root, identity_)});
  }
  for (const Status& kept : co_await run_side_by_side(
           runtime_, tasks_, "it hangs; start the server again when it answers", std::move(steps))) {
    // One that hangs is dropped alone.
    if (kept.code() != Code::kUnavailable) KINTSUGI_CO_TRY(kept);
  }
  co_return Status{};
}

asio::awaitable<Result<StoreRoot*>> StoreDisks::disk_for(ChunkId id, uint64_t max_bytes) {
  const uint64_t needed = kReservedBytes + max_bytes;
  StoreRoot* root = choose(id, needed);
  if (root == nullptr) co_return Status{Code::kUnavailable, "no disk works"};
  // What other writers were promised is not free any more.
  if (root->disk.free_bytes() < needed) {
    // The figure in memory may be old, since deletions give space back without changing it.
    KINTSUGI_CO_TRY(co_await calls_.wait_for(root->disk, root->disk.refresh_space()));
    if (root->disk.free_bytes() < needed) {
      co_return Status{Code::kNoSpace, fmt::format("disk {} is full", root->disk.root())};
    }
  }
  co_return root;
}

StoreRoot* StoreDisks::choose(ChunkId id, uint64_t needed) const {
  // Beside a copy that is here already, so that taking its place is one step.
  if (const ChunkIndex::Entry* here = chunks_.index().find(id)) {
    const DataDisk& disk = here->root->disk;
    if (disk.takes_writes() && disk.free_bytes() >= needed) return here->root;
  }
  return choose_disk(roots_, needed, runtime_.random);
}

StoreSpace StoreDisks::known_space() const {
  StoreSpace space;
  space.disks = static_cast<uint32_t>(roots_.size());
  for (const auto& root : roots_) {
    if (root->disk.failed()) {
      ++space.failed_disks;
      continue;
    }
    const DataDisk& disk = root->disk;
    // What is free on a disk that takes nothing new is of no use to anybody.
    const uint64_t free_bytes = disk.takes_writes() ? disk.free_bytes() : 0;
    const auto known = std::ranges::find(space.devices, disk.device(), &runtime::DiskSpace::device);
    if (known != space.devices.end() && disk.device() != 0) {
      known->free_bytes = std::min(known->free_bytes, free_bytes);
    } else {
      space.devices.push_back({disk.total_bytes(), free_bytes, disk.device()});
    }
  }
  for (const runtime::DiskSpace& device : space.devices) {
    space.total_bytes += device.total_bytes;
    space.free_bytes += device.free_bytes;
  }
  space.chunks = chunks_.index().size();
  space.stored_bytes = chunks_.index().stored_bytes();
  return space;
}

std::vector<DiskReport> StoreDisks::reports() const {
  std::vector<DiskReport> reports;
  for (const auto& root : roots_) {
    const DiskHealth& health = root->health;
    reports.push_back({.path = root->disk.root(),
                       .condition = health.condition(),
                       .reason = health.reason(),
                       .total_bytes = root->disk.total_bytes(),
                       .free_bytes = root->disk.free_bytes(),
                       .chunks = root->chunks,
                       .read_errors = health.read_errors(),
                       .write_errors = health.write_errors(),
                       .full = root->disk.full(),
                       .quarantined_files = root->disk.quarantined().files(),
                       .quarantined_bytes = root->disk.quarantined().bytes(),
                       .oldest_call = health.oldest_call()});
  }
  return reports;
}

std::vector<Duration> StoreDisks::busy_times() const {
  std::vector<Duration> times;
  for (const auto& root : roots_)
    times.push_back(root->device.busy_time());
  return times;
}

std::vector<size_t> StoreDisks::calls_under_way() const {
  std::vector<size_t> calls;
  for (const auto& root : roots_)
    calls.push_back(root->device.under_way());
  return calls;
}

uint64_t StoreDisks::bytes_read() const {
  uint64_t bytes = 0;
  for (const auto& root : roots_)
    bytes += root->device.bytes_read();
  return bytes;
}

asio::awaitable<Status> StoreDisks::clean_segments(Context context) {
  for (auto& root : roots_) {
    while (!root->disk.failed()) {
      auto cleaned = co_await root->segments.cleaner().clean_one(context);
      if (!cleaned) co_return cleaned.error();
      if (!*cleaned) break;
    }
  }
  co_return Status{};
}

}  // namespace kintsugi::chunkserver
