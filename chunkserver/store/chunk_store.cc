#include "chunkserver/store/chunk_store.h"

#include "chunkserver/store/copies.h"
#include "chunkserver/store/disk/disk_wait.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kOpen{"chunkserver.open_chunk"};

}  // namespace

ChunkStore::ChunkStore(const runtime::Runtime& runtime, StoreOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      tasks_(runtime),
      chunks_(runtime_, options_.cache_bytes, tasks_),
      disks_(runtime_, options_, chunks_, tasks_),
      changes_(runtime_, chunks_, disks_.calls(), tasks_),
      walk_(chunks_, disks_.roots(), tasks_) {}

ChunkStore::~ChunkStore() {
  KINTSUGI_ASSERT(writers_.count() == 0);
}

asio::awaitable<Status> ChunkStore::start() {
  KINTSUGI_CO_TRY(co_await disks_.start());
  tasks_.spawn(walk_.run());
  tasks_.spawn(disks_.calls().watch(tasks_));
  tasks_.spawn(chunks_.surplus().run(tasks_));
  co_return Status{};
}

asio::awaitable<void> ChunkStore::stop() {
  tasks_.request_stop();
  disks_.stop_segments();
  co_await tasks_.join();
  chunks_.clear_memory();
  disks_.unlock();
}

Status ChunkStore::begin_write(ChunkId id, size_t policy_bytes, uint64_t max_bytes) {
  if (max_bytes > kMaxChunkBytes || policy_bytes > kMaxPolicyBytes) {
    return {Code::kInvalidArgument,
            fmt::format("chunk {}: {} bytes, more than {}", id, max_bytes, kMaxChunkBytes)};
  }
  if (tasks_.stopping()) return {Code::kCancelled, "the store is stopping"};
  if (writers_.full())
    return {Code::kLimitExceeded, fmt::format("{} chunks are being written", writers_.count())};
  changes_.tell_of_write(id);
  return {};
}

asio::awaitable<Result<std::unique_ptr<ChunkWriter>>> ChunkStore::create(Context, ChunkId id,
                                                                         std::string policy,
                                                                         uint64_t max_bytes) {
  KINTSUGI_CO_TRY(begin_write(id, policy.size(), max_bytes));
  KINTSUGI_CO_ASSIGN(StoreRoot* const root, co_await disks_.disk_for(id, max_bytes));
  co_return std::make_unique<ChunkWriter>(
      changes_, runtime_, *root, OpenWriters::Room(writers_, root->disk, max_bytes), id, std::move(policy));
}

asio::awaitable<Status> ChunkStore::put_small(Context context, ChunkHeader header,
                                              std::span<const std::byte> data) {
  const ChunkInfo info = header.info;
  KINTSUGI_ASSERT(info.length == data.size() && data.size() <= kBlockBytes);
  if (crc32c(data) != info.crc)
    co_return Status{Code::kCorrupt, fmt::format("chunk {}: checksum mismatch", info.id)};
  KINTSUGI_CO_TRY(changes_.check_not_removed(info.id));
  KINTSUGI_CO_TRY(begin_write(info.id, header.policy.size(), info.length));
  KINTSUGI_CO_ASSIGN(StoreRoot* const root, co_await disks_.disk_for(info.id, info.length));
  OpenWriters::Room room(writers_, root->disk, info.length);
  if (!room.fits_in_memory(info.length))
    co_return Status{Code::kLimitExceeded, "too many small chunks are being written"};
  room.set_memory(info.length);
  const auto kept = std::make_shared<const std::vector<std::byte>>(data.begin(), data.end());
  FinishedChunk chunk{std::move(header),       {info.crc},          *root, nullptr,
                      OwnedBytes{*kept, kept}, runtime_.clock.now()};
  Status status = co_await changes_.commit(context, std::move(chunk));
  room.leave(status.ok() ? info.length : 0);
  if (!status.ok()) status = status.with_context(fmt::format("chunk {}", info.id));
  co_return status;
}

std::shared_ptr<OpenChunk> ChunkStore::open_one_block(const ChunkIndex::Entry& entry) {
  if (!entry.in_segment) return nullptr;
  auto chunk = entry.root->segments.open_one_block(entry.info.id);
  if (chunk == nullptr || chunk->info != entry.info) return nullptr;
  chunk->generation = entry.generation;
  return chunk;
}

asio::awaitable<Result<std::unique_ptr<ChunkReader>>> ChunkStore::open(Context context, ChunkId id,
                                                                       ReadFor purpose) {
  DiskCalls& calls = disks_.calls();
  const ChunkIndex::Entry* found = chunks_.index().find(id);
  if (found == nullptr) co_return not_here(id);
  // A file that is open reads well after its name, header or table went bad on the disk.
  const bool anew = purpose == ReadFor::kVerification;
  if (auto cached = anew ? nullptr : chunks_.find_open(*found))
    co_return std::make_unique<ChunkReader>(chunks_, calls, std::move(cached), purpose);
  if (auto known = anew ? nullptr : open_one_block(*found))
    co_return std::make_unique<ChunkReader>(chunks_, calls, std::move(known), purpose);
  sight::Module module{context, kOpen};
  const ChunkIndex::Entry entry = *found;
  if (Status answers = entry.root->disk.check_answers(); !answers.ok())
    co_return module.finish(answers.with_context(fmt::format("chunk {}", id)));
  DiskWait wait(module.context(), entry.root->disk);
  auto chunk = co_await calls.wait_for(entry.root->disk, open_copy(entry));
  if (!chunk && chunk.error().code() == Code::kMediumError)  // retry once, as reads do
    chunk = co_await calls.wait_for(entry.root->disk, open_copy(entry));
  wait.stop();
  // No claim is held: the chunk may have been removed or replaced while it was opened.
  if (chunks_.index().find(id) == nullptr) co_return module.finish(not_here(id));
  const bool replaced = chunks_.index().find(id, entry.generation) == nullptr;
  if (!chunk && replaced) {
    Status meanwhile{Code::kUnavailable, fmt::format("chunk {} was replaced while it was opened", id)};
    co_return module.finish(std::move(meanwhile));
  }
  if (!chunk) {
    // A file that vanished, or that the disk cannot read, is as lost as one that is damaged.
    const Code code = chunk.error().code();
    const bool bad = code == Code::kCorrupt || code == Code::kNotFound || code == Code::kMediumError;
    if (bad) chunks_.drop_corrupt(id, entry.generation, chunk.error());
    co_return module.finish(chunk.error().with_context(fmt::format("chunk {}", id)));
  }
  if ((*chunk)->info != entry.info) {
    Status differs{Code::kCorrupt, fmt::format("chunk {}: not the chunk that was there before", id)};
    chunks_.drop_corrupt(id, entry.generation, differs);
    co_return module.finish(std::move(differs));
  }
  // A replaced copy may still be read, since it is equal, but is not remembered, and nothing of it is cached: admit()
  // looks at the generation.
  (*chunk)->generation = entry.generation;
  if (!replaced && !anew) chunks_.keep_open(entry, *chunk);
  co_return std::make_unique<ChunkReader>(chunks_, calls, std::move(*chunk), purpose);
}

std::optional<ChunkInfo> ChunkStore::find(ChunkId id) const {
  const ChunkIndex::Entry* entry = chunks_.index().find(id);
  return entry == nullptr ? std::nullopt : std::optional(entry->info);
}

std::optional<uint32_t> ChunkStore::disk_of(ChunkId id) const {
  const ChunkIndex::Entry* entry = chunks_.index().find(id);
  return entry == nullptr ? std::nullopt : std::optional(entry->root->position);
}

std::vector<ChunkInfo> ChunkStore::list(ChunkId after, size_t limit) const {
  return chunks_.index().list(after, limit);
}

std::vector<ListedChunk> ChunkStore::list_with_disks(ChunkId after, size_t limit) const {
  std::vector<ListedChunk> chunks;
  for (const ChunkIndex::Entry& entry : chunks_.index().entries(after, limit))
    chunks.push_back({entry.info, entry.root->position});
  return chunks;
}

StoreCounters ChunkStore::counters() const {
  return {changes_.committed(), changes_.removed(), disks_.joined(), chunks_.surplus().used(),
          chunks_.corrupt()};
}

}  // namespace kintsugi::chunkserver
