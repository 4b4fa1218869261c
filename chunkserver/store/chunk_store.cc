#include "chunkserver/store/chunk_store.h"

#include "chunkserver/store/copies.h"
#include "chunkserver/store/disk/disk_wait.h"
#include "chunkserver/store/disk_choice.h"
#include "chunkserver/store/disk_step.h"
#include "chunkserver/store/late_disk.h"
#include "chunkserver/store/owner.h"
#include "chunkserver/store/store_start.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kOpen{"chunkserver.open_chunk"};
constexpr sight::Site kRemove{"chunkserver.remove_chunk"};
/// Left free on a disk, for metadata of the file system and for chunks whose size grows.
constexpr uint64_t kReservedBytes = 16ull << 20;

Status not_here(ChunkId id) {
  return {Code::kNotFound, fmt::format("chunk {} is not here", id)};
}

std::vector<std::unique_ptr<StoreRoot>> make_roots(const runtime::Runtime& runtime,
                                                   const StoreOptions& options) {
  std::vector<std::unique_ptr<StoreRoot>> roots;
  for (size_t position = 0; position < options.disks.size(); ++position)
    roots.push_back(make_root(runtime, options, position));
  return roots;
}

}  // namespace

ChunkStore::ChunkStore(const runtime::Runtime& runtime, StoreOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      roots_(make_roots(runtime_, options_)),
      index_(runtime),
      open_files_(kOpenFiles),
      open_records_(kOpenRecords),
      cache_(options_.cache_bytes, runtime_.clock),
      usage_(runtime_.clock),
      tasks_(runtime),
      surplus_(runtime_, index_),
      walk_(index_, roots_, tasks_) {
  for (const auto& owned : roots_) {
    listen_to(*owned);
    const auto missing = options_.missing_disks.find(owned->disk.root());
    if (missing != options_.missing_disks.end()) owned->disk.fail({Code::kNotFound, missing->second});
  }
  walk_.on_lost = [this](ChunkId id, uint64_t generation, Code why) {
    return drop_lost(id, generation, why);
  };
}

ChunkStore::~ChunkStore() {
  KINTSUGI_ASSERT(writers_.count() == 0);
}

asio::awaitable<Status> ChunkStore::start() {
  if (roots_.empty() || roots_.size() > kMaxDisks) {
    co_return Status{Code::kInvalidArgument,
                     fmt::format("{} disks; between 1 and {} are needed", roots_.size(), kMaxDisks)};
  }
  StoreStart starting(runtime_, roots_, tasks_);
  KINTSUGI_CO_TRY(co_await starting.lock());
  KINTSUGI_CO_ASSIGN(identity_, co_await starting.prepare());
  co_await starting.load(index_);
  counters_.corrupt_chunks += starting.unusable().size();
  for (ChunkId id : starting.unusable())
    lost_.push_back({id, 0, 0});
  const bool usable = std::ranges::any_of(roots_, [](const auto& root) { return !root->disk.failed(); });
  if (!usable) co_return Status{Code::kUnavailable, "none of the disks can be used"};
  for (auto& root : roots_) {
    if (!root->disk.failed()) begin_work(*root);
  }
  for (const StoreRoot* root : starting.hung())
    tasks_.spawn(take_in(root->position));
  tasks_.spawn(walk_.run());
  tasks_.spawn(disk_calls_.watch(tasks_));
  for (const Entry& copy : starting.surplus())
    surplus_.add(copy);
  tasks_.spawn(surplus_.run(tasks_));
  co_return Status{};
}

void ChunkStore::listen_to(StoreRoot& root) {
  root.disk.on_failed = [this, &root] { drop_disk(root); };
  root.segments.cleaner().on_corrupt = [this, &root](ChunkId id) { drop_corrupt_record(root, id); };
  root.segments.cleaner().on_delete = [this](const runtime::File& file) { open_records_.erase_of(file); };
}

void ChunkStore::begin_work(StoreRoot& root) {
  root.segments.start(tasks_);
  tasks_.spawn(root.guard.watch(tasks_));
  tasks_.spawn(root.disk.keep_space_fresh(tasks_));
}

asio::awaitable<void> ChunkStore::take_in(size_t position) {
  LateDisk late(runtime_, options_, tasks_);
  LateDisk::Found found = co_await late.find(*roots_[position], identity_);
  if (!found.root) co_return;
  StoreRoot& root = *found.root;
  listen_to(root);
  given_up_.push_back(std::exchange(roots_[position], std::move(found.root)));
  begin_work(root);
  // The server may have joined its cluster since the disk was bound.
  const Status kept = co_await keep_owner(root, identity_);
  if (!kept.ok()) root.disk.fail(kept);
  counters_.corrupt_chunks += found.chunks->unusable().size();
  for (ChunkId id : found.chunks->unusable())
    lost_.push_back({id, 0, 0});
  const size_t chunks = co_await merge(runtime_, found.chunks->take_found(), index_, surplus_, tasks_);
  log::info("disk {} has joined with {} chunks", root.disk.root(), chunks);
  ++counters_.disks_joined;
}

void ChunkStore::keep_metadata_mark(MetadataMark mark) {
  identity_.metadata = mark;
  for (const auto& root : roots_) {
    if (root->disk.takes_writes() && !root->saving_mark) tasks_.spawn(save_mark(*root, identity_));
  }
}

asio::awaitable<Status> ChunkStore::join_cluster(std::string cluster, uint32_t number) {
  KINTSUGI_CO_TRY(chunkserver::join_cluster(identity_, std::move(cluster), number));
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

asio::awaitable<void> ChunkStore::stop() {
  tasks_.request_stop();
  for (auto& root : roots_)
    root->segments.stop();
  co_await tasks_.join();
  open_files_.clear();
  open_records_.clear();
  cache_.clear();
  for (auto& root : roots_)
    root->guard.release();
}

asio::awaitable<Result<StoreRoot*>> ChunkStore::admit(ChunkId id, size_t policy_bytes, uint64_t max_bytes) {
  if (max_bytes > kMaxChunkBytes || policy_bytes > kMaxPolicyBytes) {
    co_return Status{Code::kInvalidArgument,
                     fmt::format("chunk {}: {} bytes, more than {}", id, max_bytes, kMaxChunkBytes)};
  }
  if (tasks_.stopping()) co_return Status{Code::kCancelled, "the store is stopping"};
  if (writers_.full())
    co_return Status{Code::kLimitExceeded, fmt::format("{} chunks are being written", writers_.count())};
  on_write(id);
  StoreRoot* root = choose_root(id, max_bytes);
  if (root == nullptr) co_return Status{Code::kUnavailable, "no disk works"};
  // What other writers were promised is not free any more.
  const uint64_t needed = kReservedBytes + max_bytes;
  if (root->disk.free_bytes() < needed) {
    // The figure in memory may be old, since deletions give space back without changing it.
    KINTSUGI_CO_TRY(co_await disk_calls_.wait_for(root->disk, root->disk.refresh_space()));
    if (root->disk.free_bytes() < needed) {
      co_return Status{Code::kNoSpace, fmt::format("disk {} is full", root->disk.root())};
    }
  }
  co_return root;
}

Status ChunkStore::check_not_removed(ChunkId id) {
  if (!removed_.when(id, runtime_.clock.now())) return {};
  return {Code::kConflict, fmt::format("chunk {} was removed from here a short while ago", id)};
}

asio::awaitable<Result<std::unique_ptr<ChunkWriter>>> ChunkStore::create(Context, ChunkId id,
                                                                         std::string policy,
                                                                         uint64_t max_bytes) {
  KINTSUGI_CO_ASSIGN(StoreRoot* const root, co_await admit(id, policy.size(), max_bytes));
  co_return std::make_unique<ChunkWriter>(
      *this, runtime_, *root, OpenWriters::Room(writers_, root->disk, max_bytes), id, std::move(policy));
}

asio::awaitable<Status> ChunkStore::put_small(Context context, ChunkHeader header,
                                              std::span<const std::byte> data) {
  const ChunkInfo info = header.info;
  KINTSUGI_ASSERT(info.length == data.size() && data.size() <= kBlockBytes);
  if (crc32c(data) != info.crc)
    co_return Status{Code::kCorrupt, fmt::format("chunk {}: checksum mismatch", info.id)};
  KINTSUGI_CO_TRY(check_not_removed(info.id));
  KINTSUGI_CO_ASSIGN(StoreRoot* const root, co_await admit(info.id, header.policy.size(), info.length));
  OpenWriters::Room room(writers_, root->disk, info.length);
  if (!room.fits_in_memory(info.length))
    co_return Status{Code::kLimitExceeded, "too many small chunks are being written"};
  room.set_memory(info.length);
  const auto kept = std::make_shared<const std::vector<std::byte>>(data.begin(), data.end());
  FinishedChunk chunk{std::move(header),       {info.crc},          *root, nullptr,
                      OwnedBytes{*kept, kept}, runtime_.clock.now()};
  Status status = co_await commit(context, std::move(chunk));
  room.leave(status.ok() ? info.length : 0);
  if (!status.ok()) status = status.with_context(fmt::format("chunk {}", info.id));
  co_return status;
}

StoreRoot* ChunkStore::choose_root(ChunkId id, uint64_t max_bytes) {
  // Beside a copy that is here already, so that taking its place is one step.
  if (const Entry* here = index_.find(id)) {
    const DataDisk& disk = here->root->disk;
    if (disk.takes_writes() && disk.free_bytes() >= kReservedBytes + max_bytes) return here->root;
  }
  return choose_disk(roots_, kReservedBytes + max_bytes, runtime_.random);
}

asio::awaitable<Status> ChunkStore::commit(Context context, FinishedChunk chunk) {
  const DataDisk& disk = chunk.root.disk;
  const auto interest = std::make_shared<Interest>();
  co_return co_await disk_calls_.wait_for(disk, carry_out_commit(context, std::move(chunk), interest),
                                          interest);
}

asio::awaitable<Status> ChunkStore::carry_out_commit(Context context, FinishedChunk chunk,
                                                     std::shared_ptr<const Interest> interest) {
  const ChunkId id = chunk.header.info.id;
  on_write(id);
  sight::Wait wait(context, sight::WaitKind::kResource, runtime::named_target(context, "claims of chunks"));
  auto claim = co_await index_.claim(id, &chunk.root);
  wait.stop();
  Status status = claim.has_error() ? claim.error() : Status{};
  // Held until what is left of a commit that failed is gone: it may have the name that the next one gives its file.
  SharedClaim held;
  if (status.ok()) {
    held = std::make_shared<ChunkIndex::Claim>(std::move(*claim));
    status = co_await commit_claimed(context, chunk, *interest, held);
  }
  if (!status.ok() && chunk.file) co_await chunk.file->discard();
  co_return status;
}

asio::awaitable<Status> ChunkStore::commit_claimed(Context context, FinishedChunk& chunk,
                                                   const Interest& interest, SharedClaim claim) {
  const ChunkInfo info = chunk.header.info;
  StoreRoot& root = chunk.root;
  if (const auto removed = removed_.when(info.id, runtime_.clock.now()); removed && *removed > chunk.began)
    co_return Status{Code::kConflict, "it was removed from here while it was written"};
  const bool in_segment = chunk.file == nullptr;
  // The new copy takes the place of an equal one, whose bytes nobody looked at lately.
  std::optional<Entry> old;
  if (const Entry* here = index_.find(info.id)) {
    if (here->info != info) co_return Status{Code::kAlreadyExists, "another chunk of this name is here"};
    old = *here;
  }
  const bool same_place = old && old->root == &root && old->in_segment == in_segment;
  KINTSUGI_CO_TRY(root.disk.check_answers());
  if (in_segment) {
    KINTSUGI_CO_TRY(co_await root.segments.append(context, std::move(chunk.header),
                                                  std::move(chunk.block_crcs), chunk.data.bytes));
    // Whoever waited was told that nothing is here. A record that has taken the place of an equal one stays.
    if (interest.is_lost) {
      if (!same_place) KINTSUGI_CO_TRY(co_await root.segments.remove(context, info.id));
      co_return Status{Code::kCancelled, "nobody waits for it any more"};
    }
  } else {
    DiskWait wait(context, root.disk);
    KINTSUGI_CO_TRY(wait.finish(
        co_await chunk.file->commit(std::move(chunk.header), chunk.block_crcs, same_place, interest)));
  }
  // The chunk is durable from here on. A disk that failed meanwhile has left the index, and nothing may come back
  // to it.
  if (root.disk.failed()) co_return Status{Code::kIoError, "the disk of the chunk failed"};
  erase(info.id);
  index_.insert({info, &root, in_segment});
  ++counters_.chunks_committed;
  // Last, so that there is a copy on some disk at every moment. After a crash in between, both are there and equal.
  if (old && !same_place && !old->root->disk.failed()) {
    claim->uses(*old->root);
    (void)co_await disk_calls_.wait_for(old->root->disk, remove_replaced(context, *old, std::move(claim)));
  }
  co_return Status{};
}

asio::awaitable<Status> ChunkStore::remove_replaced(Context context, Entry old, SharedClaim) {
  if (!old.root->disk.answers()) {
    surplus_.add(old);
    co_return Status{};
  }
  const ChunkId id = old.info.id;
  Status removed = co_await remove_copy(context, old);
  if (!removed.ok() && removed.code() != Code::kNotFound)
    log::warning("a replaced copy of chunk {} stays on disk {}: {}", id, old.root->disk.root(),
                 removed.to_string());
  co_return removed;
}

asio::awaitable<Result<std::unique_ptr<ChunkReader>>> ChunkStore::open(Context context, ChunkId id,
                                                                       ReadFor purpose) {
  const Entry* found = index_.find(id);
  if (found == nullptr) co_return not_here(id);
  // A file that is open reads well after its name, header or table went bad on the disk.
  const bool anew = purpose == ReadFor::kVerification;
  if (auto cached = anew ? nullptr : open_chunks(*found).find(id))
    co_return std::make_unique<ChunkReader>(*this, std::move(cached), purpose);
  sight::Module module{context, kOpen};
  const Entry entry = *found;
  if (Status answers = entry.root->disk.check_answers(); !answers.ok())
    co_return module.finish(answers.with_context(fmt::format("chunk {}", id)));
  DiskWait wait(module.context(), entry.root->disk);
  auto chunk = co_await disk_calls_.wait_for(entry.root->disk, open_copy(entry));
  if (!chunk && chunk.error().code() == Code::kMediumError)  // once more, as reads do
    chunk = co_await disk_calls_.wait_for(entry.root->disk, open_copy(entry));
  wait.stop();
  // No claim is held: the chunk may have been removed or replaced while it was opened.
  if (index_.find(id) == nullptr) co_return module.finish(not_here(id));
  const bool replaced = index_.find(id, entry.generation) == nullptr;
  if (!chunk && replaced) {
    Status meanwhile{Code::kUnavailable, fmt::format("chunk {} was replaced while it was opened", id)};
    co_return module.finish(std::move(meanwhile));
  }
  if (!chunk) {
    // A file that vanished, or that the disk cannot read, is as lost as one that is damaged.
    const Code code = chunk.error().code();
    const bool bad = code == Code::kCorrupt || code == Code::kNotFound || code == Code::kMediumError;
    if (bad) drop_corrupt(id, entry.generation, chunk.error());
    co_return module.finish(chunk.error().with_context(fmt::format("chunk {}", id)));
  }
  if ((*chunk)->info != entry.info) {
    Status differs{Code::kCorrupt, fmt::format("chunk {}: not the chunk that was there before", id)};
    drop_corrupt(id, entry.generation, differs);
    co_return module.finish(std::move(differs));
  }
  // A replaced copy may still be read, since it is equal, but is not remembered, and nothing of it is cached: admit()
  // looks at the generation.
  (*chunk)->generation = entry.generation;
  if (!replaced && !anew) open_chunks(entry).insert(*chunk);
  co_return std::make_unique<ChunkReader>(*this, std::move(*chunk), purpose);
}

asio::awaitable<Status> ChunkStore::remove(Context context, ChunkId id) {
  sight::Module module{context, kRemove};
  sight::Wait wait(module.context(), sight::WaitKind::kResource,
                   runtime::named_target(context, "claims of chunks"));
  const Entry* here = index_.find(id);
  const auto claim = co_await index_.claim(id, here == nullptr ? nullptr : here->root);
  wait.stop();
  if (!claim) co_return module.finish(claim.error());
  co_return module.finish(co_await remove_claimed(module.context(), id));
}

asio::awaitable<Status> ChunkStore::remove_claimed(Context context, ChunkId id) {
  if (const Entry* here = index_.find(id)) KINTSUGI_CO_TRY(here->root->disk.check_answers());
  removed_.add(id, runtime_.clock.now());
  // Out of the index first: from here on nobody opens it. Readers that have it open keep the file.
  const std::optional<Entry> entry = erase(id);
  if (!entry) co_return not_here(id);
  Status status = co_await remove_copy(context, *entry);
  if (status.ok()) {
    ++counters_.chunks_removed;
    usage_.forget(id);
  } else if (status.code() != Code::kNotFound && !entry->root->disk.failed()) {
    index_.insert(*entry);  // still there, as far as anybody knows
  }
  co_return status;
}

std::optional<ChunkInfo> ChunkStore::find(ChunkId id) const {
  const Entry* entry = index_.find(id);
  return entry == nullptr ? std::nullopt : std::optional(entry->info);
}

std::vector<ChunkInfo> ChunkStore::list(ChunkId after, size_t limit) const {
  return index_.list(after, limit);
}

std::vector<ListedChunk> ChunkStore::list_with_disks(ChunkId after, size_t limit) const {
  std::vector<ListedChunk> chunks;
  for (const Entry& entry : index_.entries(after, limit))
    chunks.push_back({entry.info, entry.root->position});
  return chunks;
}

StoreSpace ChunkStore::known_space() const {
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
  space.chunks = index_.size();
  space.stored_bytes = index_.stored_bytes();
  return space;
}

std::vector<DiskReport> ChunkStore::disk_reports() const {
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

std::vector<Duration> ChunkStore::disk_busy_times() const {
  std::vector<Duration> times;
  for (const auto& root : roots_)
    times.push_back(root->device.busy_time());
  return times;
}

uint64_t ChunkStore::disk_bytes_read() const {
  uint64_t bytes = 0;
  for (const auto& root : roots_)
    bytes += root->device.bytes_read();
  return bytes;
}

asio::awaitable<Status> ChunkStore::clean_segments(Context context) {
  for (auto& root : roots_) {
    while (!root->disk.failed()) {
      auto cleaned = co_await root->segments.cleaner().clean_one(context);
      if (!cleaned) co_return cleaned.error();
      if (!*cleaned) break;
    }
  }
  co_return Status{};
}

void ChunkStore::discard_later(std::shared_ptr<ChunkFileWriter> file) {
  tasks_.spawn(discard(std::move(file)));
}

asio::awaitable<void> ChunkStore::discard(std::shared_ptr<ChunkFileWriter> file) {
  co_await file->discard();
}

std::optional<ChunkIndex::Entry> ChunkStore::erase(ChunkId id) {
  std::optional<Entry> entry = index_.erase(id);
  if (entry) {
    open_chunks(*entry).erase(id);
    cache_.erase(id);
  }
  return entry;
}

void ChunkStore::admit(const OpenChunk& chunk, uint64_t block, std::span<const std::byte> bytes) {
  if (index_.find(chunk.info.id, chunk.generation) == nullptr) return;
  cache_.admit({chunk.info.id, chunk.generation, chunk.info.length}, block, bytes);
}

void ChunkStore::drop_corrupt_record(StoreRoot& root, ChunkId id) {
  const Entry* entry = index_.find(id);
  if (entry == nullptr) return;
  // A record that was replaced by a copy elsewhere only waits for its removal.
  if (entry->root != &root || !entry->in_segment) return;
  drop_corrupt(id, entry->generation, {Code::kCorrupt, "damaged record"});
}

void ChunkStore::drop_corrupt(ChunkId id, uint64_t generation, const Status& why) {
  const Entry* entry = index_.find(id, generation);
  if (entry == nullptr) return;
  log::error("chunk {} on disk {} is lost: {}", id, entry->root->disk.root(), why.to_string());
  drop_lost(id, generation, why.code());
}

bool ChunkStore::drop_lost(ChunkId id, uint64_t generation, Code why) {
  if (index_.find(id, generation) == nullptr) return false;
  const Entry entry = *erase(id);
  ++counters_.corrupt_chunks;
  lost_.push_back(entry.info);
  const bool file_is_gone = why == Code::kNotFound && !entry.in_segment;
  if (entry.root->disk.failed() || file_is_gone) return true;
  // Whoever else holds the claim replaces or removes the chunk just now; to clear it away then would hit a new copy.
  if (auto claim = index_.try_claim(id, entry.root)) tasks_.spawn(clear_away(entry, std::move(*claim)));
  return true;
}

asio::awaitable<void> ChunkStore::clear_away(Entry entry, ChunkIndex::Claim claim) {
  const ChunkIndex::Claim held = std::move(claim);  // until the end, which a parameter may outlive
  const ChunkId id = entry.info.id;
  if (!entry.in_segment) {
    co_await entry.root->disk.quarantine(entry.root->disk.chunk_path(entry.info), chunk_file_name(id));
    co_return;
  }
  // A record shares its file with others, so there is nothing to move: the tombstone keeps it from coming back.
  Status removed = co_await entry.root->segments.remove(Context{}, id);
  if (!removed.ok()) log::warning("chunk {} stays on the disk: {}", id, removed.to_string());
}

void ChunkStore::drop_disk(StoreRoot& root) {
  for (const ChunkInfo& info : index_.list(root)) {
    lost_.push_back(info);
    erase(info.id);
  }
}

}  // namespace kintsugi::chunkserver
