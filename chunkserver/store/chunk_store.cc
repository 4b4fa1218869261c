#include "chunkserver/store/chunk_store.h"

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

}  // namespace

ChunkStore::ChunkStore(const runtime::Runtime& runtime, StoreOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      unclaimed_(runtime),
      open_files_(options_.open_files),
      open_records_(options_.open_records),
      cache_(options_.cache_bytes, runtime_.clock),
      usage_(runtime_.clock),
      tasks_(runtime) {
  for (const std::string& path : options_.disks) {
    Root& root = *roots_.emplace_back(
        std::make_unique<Root>(runtime_, path, options_.segments, options_.disk_bytes_per_second));
    root.disk.on_failed = [this](DataDisk& disk) { drop_disk(disk); };
    root.segments.on_corrupt = [this, &root](ChunkId id) { drop_corrupt_record(root, id); };
    root.segments.on_delete = [this](const runtime::File& file) { open_records_.erase_of(file); };
  }
}

ChunkStore::~ChunkStore() {
  KINTSUGI_ASSERT(open_writers_ == 0);
}

asio::awaitable<void> ChunkStore::stop() {
  tasks_.request_stop();
  for (auto& root : roots_)
    root->segments.stop();
  co_await tasks_.join();
  open_files_.clear();
  open_records_.clear();
  cache_.clear();
}

asio::awaitable<Result<std::unique_ptr<ChunkWriter>>> ChunkStore::create(Context, ChunkId id,
                                                                         std::string policy,
                                                                         uint64_t max_bytes) {
  if (max_bytes > kMaxChunkBytes || policy.size() > kMaxPolicyBytes) {
    co_return Status{Code::kInvalidArgument,
                     fmt::format("chunk {}: {} bytes, more than {}", id, max_bytes, kMaxChunkBytes)};
  }
  if (tasks_.stopping()) co_return Status{Code::kCancelled, "the store is stopping"};
  if (open_writers_ >= kMaxOpenWriters) {
    co_return Status{Code::kLimitExceeded, fmt::format("{} chunks are being written", open_writers_)};
  }
  on_write(id);
  Root* root = choose_root(id, max_bytes);
  if (root == nullptr) co_return Status{Code::kUnavailable, "no disk works"};
  if (root->disk.free_bytes() < kReservedBytes) {
    // What is known may be old: deletions give space back.
    KINTSUGI_CO_TRY(co_await root->disk.refresh_space());
    if (root->disk.free_bytes() < kReservedBytes) {
      co_return Status{Code::kNoSpace, fmt::format("disk {} is full", root->disk.root())};
    }
  }
  co_return std::unique_ptr<ChunkWriter>(
      new ChunkWriter(*this, root->disk, id, std::move(policy), max_bytes));
}

ChunkStore::Root* ChunkStore::choose_root(ChunkId id, uint64_t max_bytes) {
  // Beside a copy that is here already, so that taking its place is one step.
  const auto found = index_.find(id);
  if (found != index_.end()) {
    Root* root = found->second.root;
    if (!root->disk.failed() && root->disk.free_bytes() >= kReservedBytes + max_bytes) return root;
  }
  return emptiest_root();
}

ChunkStore::Root* ChunkStore::emptiest_root() {
  Root* best = nullptr;
  for (auto& root : roots_) {
    if (root->disk.failed()) continue;
    if (best == nullptr || root->disk.free_bytes() > best->disk.free_bytes()) best = root.get();
  }
  return best;
}

ChunkStore::Root& ChunkStore::root_of(const DataDisk& disk) {
  for (auto& root : roots_) {
    if (&root->disk == &disk) return *root;
  }
  KINTSUGI_ASSERT(false);
}

asio::awaitable<Status> ChunkStore::commit(Context context, ChunkWriter& writer, ChunkHeader header) {
  const ChunkId id = header.info.id;
  on_write(id);
  co_await claim(id);
  Status status = co_await commit_claimed(context, writer, std::move(header));
  unclaim(id);
  co_return status;
}

asio::awaitable<Status> ChunkStore::commit_claimed(Context context, ChunkWriter& writer, ChunkHeader header) {
  const ChunkId id = header.info.id;
  Root& root = root_of(writer.disk_);
  const bool in_segment = writer.file_ == nullptr;
  const auto found = index_.find(id);
  // The new copy takes the place of the old one, whose bytes nobody looked at lately.
  std::optional<Entry> old;
  if (found != index_.end()) {
    old = found->second;
    if (old->info != header.info)
      co_return Status{Code::kAlreadyExists, "another chunk of this name is here"};
  }
  const bool same_place = old && old->root == &root && old->in_segment == in_segment;
  if (root.disk.failed()) co_return Status{Code::kIoError, "the disk of the chunk failed"};
  const ChunkInfo info = header.info;
  Status status;
  if (in_segment) {
    status = co_await root.segments.append(context, std::move(header), writer.crcs_,
                                           writer.small_.first(writer.length_));
  } else {
    status = co_await writer.file_->commit(std::move(header), writer.crcs_, same_place);
  }
  if (!status.ok()) co_return status;
  if (root.disk.failed()) co_return Status{Code::kIoError, "the disk of the chunk failed"};
  erase(id);
  insert({info, &root, in_segment});
  ++counters_.chunks_committed;
  writer.release();
  writer.file_.reset();
  if (old && !same_place) co_await remove_replaced(context, *old);
  co_return status;
}

asio::awaitable<void> ChunkStore::remove_replaced(Context context, Entry old) {
  if (old.root->disk.failed()) co_return;
  const ChunkId id = old.info.id;
  Status removed = co_await remove_copy(context, old);
  if (removed.ok() || removed.code() == Code::kNotFound) co_return;
  log::warning("a replaced copy of chunk {} stays on disk {}: {}", id, old.root->disk.root(),
               removed.to_string());
}

asio::awaitable<Status> ChunkStore::remove_copy(Context context, Entry entry) {
  if (entry.in_segment) co_return co_await entry.root->segments.remove(context, entry.info.id);
  co_return co_await remove_chunk_file(entry.root->disk, entry.info.id);
}

asio::awaitable<Result<std::unique_ptr<ChunkReader>>> ChunkStore::open(Context context, ChunkId id,
                                                                       ReadFor purpose) {
  auto found = index_.find(id);
  if (found == index_.end()) co_return not_here(id);
  if (auto cached = open_chunks(found->second).find(id)) {
    co_return std::unique_ptr<ChunkReader>(new ChunkReader(*this, std::move(cached), purpose));
  }
  sight::Module module{context, kOpen};
  const Entry entry = found->second;
  Result<std::shared_ptr<OpenChunk>> chunk = Status{Code::kNotFound, ""};
  if (entry.in_segment) {
    chunk = co_await entry.root->segments.open(id);
  } else {
    chunk = co_await open_chunk_file(entry.root->disk, id);
  }
  found = index_.find(id);
  if (found == index_.end()) co_return module.finish(not_here(id));  // removed meanwhile
  const bool replaced = found->second.generation != entry.generation;
  if (!chunk && replaced) {
    Status meanwhile{Code::kUnavailable, fmt::format("chunk {} was replaced while it was opened", id)};
    co_return module.finish(std::move(meanwhile));
  }
  if (!chunk) {
    // A file that vanished is as lost as one that is damaged.
    bool bad = chunk.error().code() == Code::kCorrupt || chunk.error().code() == Code::kNotFound;
    if (bad) drop_corrupt(id, entry.generation, chunk.error());
    co_return module.finish(chunk.error().with_context(fmt::format("chunk {}", id)));
  }
  if ((*chunk)->info != entry.info) {
    Status differs{Code::kCorrupt, fmt::format("chunk {}: not the chunk that was there before", id)};
    drop_corrupt(id, entry.generation, differs);
    co_return module.finish(std::move(differs));
  }
  (*chunk)->generation = entry.generation;
  if (!replaced) open_chunks(entry).insert(*chunk);
  co_return std::unique_ptr<ChunkReader>(new ChunkReader(*this, std::move(*chunk), purpose));
}

asio::awaitable<Status> ChunkStore::remove(Context context, ChunkId id) {
  sight::Module module{context, kRemove};
  co_await claim(id);
  Status status = co_await remove_claimed(module.context(), id);
  unclaim(id);
  co_return module.finish(std::move(status));
}

asio::awaitable<Status> ChunkStore::remove_claimed(Context context, ChunkId id) {
  auto found = index_.find(id);
  if (found == index_.end()) co_return not_here(id);
  const Entry entry = found->second;
  erase(id);
  Status status = co_await remove_copy(context, entry);
  if (status.ok()) {
    ++counters_.chunks_removed;
    usage_.forget(id);
  } else if (!entry.root->disk.failed()) {
    insert(entry);  // still there, as far as anybody knows
  }
  co_return status;
}

asio::awaitable<void> ChunkStore::claim(ChunkId id) {
  while (claimed_.contains(id))
    co_await unclaimed_.wait();
  claimed_.insert(id);
}

void ChunkStore::unclaim(ChunkId id) {
  claimed_.erase(id);
  unclaimed_.notify_all();
}

std::optional<ChunkInfo> ChunkStore::find(ChunkId id) const {
  auto found = index_.find(id);
  if (found == index_.end()) return std::nullopt;
  return found->second.info;
}

std::vector<ChunkInfo> ChunkStore::list(ChunkId after, size_t limit) const {
  std::vector<ChunkInfo> chunks;
  for (auto entry = index_.upper_bound(after); entry != index_.end() && chunks.size() < limit; ++entry) {
    chunks.push_back(entry->second.info);
  }
  return chunks;
}

asio::awaitable<StoreSpace> ChunkStore::space() {
  for (auto& root : roots_) {
    if (!root->disk.failed()) (void)co_await root->disk.refresh_space();  // counted by the disk itself
  }
  co_return known_space();
}

StoreSpace ChunkStore::known_space() const {
  StoreSpace space;
  space.disks = static_cast<uint32_t>(roots_.size());
  for (const auto& root : roots_) {
    if (root->disk.failed()) {
      ++space.failed_disks;
      continue;
    }
    space.total_bytes += root->disk.total_bytes();
    space.free_bytes += root->disk.free_bytes();
  }
  space.chunks = index_.size();
  space.stored_bytes = stored_bytes_;
  return space;
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
      auto cleaned = co_await root->segments.clean_one(context);
      if (!cleaned) co_return cleaned.error();
      if (!*cleaned) break;
    }
  }
  co_return Status{};
}

void ChunkStore::discard_later(std::unique_ptr<ChunkFileWriter> file) {
  tasks_.spawn(discard(std::move(file)));
}

asio::awaitable<void> ChunkStore::discard(std::unique_ptr<ChunkFileWriter> file) {
  co_await file->discard();
}

void ChunkStore::insert(const Entry& entry) {
  Entry& kept = index_[entry.info.id] = entry;
  if (kept.generation == 0) kept.generation = ++last_generation_;
  stored_bytes_ += entry.info.length;
}

void ChunkStore::erase(ChunkId id) {
  auto found = index_.find(id);
  if (found == index_.end()) return;
  stored_bytes_ -= found->second.info.length;
  open_chunks(found->second).erase(id);
  index_.erase(found);
  cache_.erase(id);
}

void ChunkStore::admit(const OpenChunk& chunk, uint64_t block, std::span<const std::byte> bytes) {
  const auto found = index_.find(chunk.info.id);
  if (found == index_.end() || found->second.generation != chunk.generation) return;
  cache_.admit({chunk.info.id, chunk.generation, chunk.info.length}, block, bytes);
}

void ChunkStore::drop_corrupt_record(Root& root, ChunkId id) {
  auto found = index_.find(id);
  if (found == index_.end()) return;
  // A record that was replaced by a copy elsewhere only waits for its removal.
  if (found->second.root != &root || !found->second.in_segment) return;
  drop_corrupt(id, found->second.generation, {Code::kCorrupt, "damaged record"});
}

void ChunkStore::drop_corrupt(ChunkId id, uint64_t generation, const Status& why) {
  auto found = index_.find(id);
  if (found == index_.end() || found->second.generation != generation) return;
  log::error("chunk {} on disk {} is lost: {}", id, found->second.root->disk.root(), why.to_string());
  Entry entry = found->second;
  erase(id);
  ++counters_.corrupt_chunks;
  lost_.push_back(entry.info);
  // Whoever holds the claim replaces or removes the chunk just now.
  if (!entry.root->disk.failed() && claimed_.insert(id).second) tasks_.spawn(put_away(entry));
}

asio::awaitable<void> ChunkStore::put_away(Entry entry) {
  if (entry.in_segment) {
    Status removed = co_await entry.root->segments.remove(Context{}, entry.info.id);
    if (!removed.ok()) log::warning("chunk {} stays on the disk: {}", entry.info.id, removed.to_string());
    unclaim(entry.info.id);
    co_return;
  }
  std::string path = entry.root->disk.chunk_path(entry.info.id);
  std::string name = chunk_file_name(entry.info.id);
  co_await entry.root->disk.quarantine(path, name);
  unclaim(entry.info.id);
}

void ChunkStore::drop_disk(DataDisk& disk) {
  std::vector<ChunkId> gone;
  for (const auto& [id, entry] : index_) {
    if (&entry.root->disk != &disk) continue;
    gone.push_back(id);
    lost_.push_back(entry.info);
  }
  for (ChunkId id : gone)
    erase(id);
}

}  // namespace kintsugi::chunkserver
